"""A part of a list that a seed draws."""

from conformance.drawing import draw


def drawn(items: list[str], number: int | None, seed: int) -> list[str]:
    return draw(items, number, seed, lambda item: item)


def test_a_larger_draw_has_the_smaller_one_and_a_new_item_changes_no_other_draw():
    items = [f"f{number}" for number in range(50)]
    five = drawn(items, 5, 1)
    assert set(five) < set(drawn(items, 10, 1))
    assert five != drawn(items, 5, 2)
    assert [one for one in drawn([*items, "new"], 6, 1) if one != "new"][:5] == five
    assert drawn(items, None, 1) == items
