"""A part of a list that a seed draws."""

from conformance.drawing import draw


def drawn(items: list[str], number: int | None, seed: int) -> list[str]:
    return draw(items, number, seed, lambda item: item)


def test_a_larger_draw_begins_with_the_smaller_one_and_a_new_or_gone_item_moves_no_other():
    items = [f"f{number}" for number in range(50)]
    five = drawn(items, 5, 1)
    assert len(set(five)) == len(five) == 5
    assert drawn(items, 10, 1)[:5] == five
    assert five != drawn(items, 5, 2)
    assert [one for one in drawn([*items, "new"], 6, 1) if one != "new"][:5] == five
    assert drawn(items[::-1], 5, 1) == five, "the order of the items does not matter"
    gone = next(one for one in items if one not in drawn(items, 10, 1))
    assert drawn([one for one in items if one != gone], 10, 1) == drawn(items, 10, 1)
    rest = [one for one in items if one != five[2]]
    assert drawn(rest, 9, 1) == [one for one in drawn(items, 10, 1) if one != five[2]]
    assert drawn(items, None, 1) == items
