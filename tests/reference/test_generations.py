"""Each generation has its own set of components; replacing the one in a slot changes no other slot."""

from dataclasses import replace

import pytest

from conformance.reference.components import EXCHANGE_2010, EXCHANGE_2013, SLOTS, ComponentClasses, ComponentSets


@pytest.mark.parametrize("slot", sorted(SLOTS))
def test_a_component_is_replaced_in_one_generation_or_in_all_that_share_its_slot(slot: str):
    field = slot.removeprefix("ex2010.")
    other = type("Other", (ComponentSets().class_in(slot),), {})
    made = ComponentSets().with_replaced({slot: other})
    differ = {one: getattr(made.for_generation(one), field) is other for one in ("ex2010", "ex2013", "ex2016")}
    hub_only, own = slot != field, f"ex2010.{field}" in SLOTS
    assert differ == {"ex2010": hub_only or not own, "ex2013": not hub_only, "ex2016": not hub_only}
    assert made.class_in(slot) is other
    back = made.with_replaced({slot: ComponentSets().class_in(slot)})
    assert back == ComponentSets()


def test_each_generation_has_the_same_slots():
    assert ComponentClasses.__dataclass_fields__.keys() == {slot for slot in SLOTS if "." not in slot}
    assert not [name for name in ComponentClasses.__dataclass_fields__ if name.startswith("hub")]
    assert (
        replace(EXCHANGE_2010, **{name: getattr(EXCHANGE_2013, name) for name in ComponentClasses.__dataclass_fields__})
        == EXCHANGE_2013
    )
