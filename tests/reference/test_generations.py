"""Each generation has its own set of components; replacing the one in a slot changes no other slot."""

from typing import get_args, get_type_hints

import pytest

from conformance.reference.components import SLOTS, ComponentClasses, ComponentSets
from conformance.reference.config import Generation


@pytest.mark.parametrize("slot", sorted(SLOTS))
def test_a_component_is_replaced_in_one_generation_or_in_all_that_share_its_slot(slot: str):
    field = slot.removeprefix("ex2010.")
    other = type("Other", (ComponentSets().class_in(slot),), {})
    made = ComponentSets().with_replaced({slot: other})
    differ = {one: getattr(made.for_generation(one), field) is other for one in get_args(Generation)}
    hub_only, own = slot != field, f"ex2010.{field}" in SLOTS
    assert differ == {"ex2010": hub_only or not own, "ex2013": not hub_only, "ex2016": not hub_only}
    assert made.class_in(slot) is other
    back = made.with_replaced({slot: ComponentSets().class_in(slot)})
    assert back == ComponentSets()


@pytest.mark.parametrize("generation", get_args(Generation))
def test_each_generation_has_a_class_of_its_component_in_every_slot(generation: Generation):
    classes = ComponentSets().for_generation(generation)
    assert type(classes) is ComponentClasses
    component_of = {slot: get_args(hint)[0] for slot, hint in get_type_hints(ComponentClasses).items()}
    assert component_of.keys() == {slot for slot in SLOTS if "." not in slot}
    used = {slot: getattr(classes, slot) for slot in component_of}
    assert {slot: kind for slot, kind in used.items() if not isinstance(kind, type)} == {}
    assert {slot: kind for slot, kind in used.items() if not issubclass(kind, component_of[slot])} == {}
