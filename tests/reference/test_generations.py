"""A generation is a set of parts of its own; a part at one place is put in where it belongs, and nowhere else."""

from dataclasses import replace

import pytest

from conformance.reference.components import EXCHANGE_2010, EXCHANGE_2013, SLOTS, ComponentClasses, ComponentSets


@pytest.mark.parametrize("place", sorted(SLOTS))
def test_a_component_is_replaced_in_one_generation_or_in_all_that_share_its_slot(place: str):
    field = place.removeprefix("ex2010.")
    other = type("Other", (ComponentSets().class_in(place),), {})
    made = ComponentSets().with_replaced({place: other})
    differ = {one: getattr(made.for_generation(one), field) is other for one in ("ex2010", "ex2013", "ex2016")}
    hub_alone, own = place != field, f"ex2010.{field}" in SLOTS
    assert differ == {"ex2010": hub_alone or not own, "ex2013": not hub_alone, "ex2016": not hub_alone}
    assert made.class_in(place) is other
    back = made.with_replaced({place: ComponentSets().class_in(place)})
    assert back == ComponentSets()


def test_each_generation_has_the_same_slots():
    assert ComponentClasses.__dataclass_fields__.keys() == {place for place in SLOTS if "." not in place}
    assert not [name for name in ComponentClasses.__dataclass_fields__ if name.startswith("hub")]
    assert (
        replace(EXCHANGE_2010, **{name: getattr(EXCHANGE_2013, name) for name in ComponentClasses.__dataclass_fields__})
        == EXCHANGE_2013
    )
