"""A generation is a set of parts of its own; a part at one place is put in where it belongs, and nowhere else."""

from dataclasses import replace

import pytest

from conformance.reference.parts import HUB, PLACES, RIGHT, Generations, Parts


@pytest.mark.parametrize("place", sorted(PLACES))
def test_a_part_is_put_in_one_generation_or_in_all_that_share_it(place: str):
    field = place.removeprefix("ex2010.")
    other = type("Other", (Generations().at(place),), {})
    made = Generations().put({place: other})
    differ = {one: getattr(made.of(one), field) is other for one in ("ex2010", "ex2013", "ex2016")}
    hub_alone, own = place != field, f"ex2010.{field}" in PLACES
    assert differ == {"ex2010": hub_alone or not own, "ex2013": not hub_alone, "ex2016": not hub_alone}
    assert made.at(place) is other
    back = made.put({place: Generations().at(place)})
    assert back == Generations()


def test_each_generation_has_the_same_places():
    assert Parts.__dataclass_fields__.keys() == {place for place in PLACES if "." not in place}
    assert not [name for name in Parts.__dataclass_fields__ if name.startswith("hub")]
    assert replace(HUB, **{name: getattr(RIGHT, name) for name in Parts.__dataclass_fields__}) == RIGHT
