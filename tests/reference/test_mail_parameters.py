"""Parameters of MAIL and RCPT: those of DSN are checked, and those that are not offered are refused with 555 (RFC 5321 4.1.1.11)."""

from pathlib import Path

import pytest

from conformance.reference.receive.mail_parameters import has_invalid_mail_parameter, has_invalid_rcpt_parameter
from tests.reference.test_authentication import say, with_hub2


@pytest.mark.parametrize(
    ("parameters", "invalid"),
    [
        ("", False), ("NOTIFY=NEVER", False), ("notify=success,Delay", False), ("ORCPT=rfc822;bob+40corp.test", False),
        ("NOTIFY=FAILURE ORCPT=x;y", False), ("NOTIFY=MAYBE", True), ("NOTIFY=", True), ("NOTIFY=NEVER,SUCCESS", True),
        ("NOTIFY=SUCCESS,", True), ("NOTIFY=NEVER NOTIFY=NEVER", True), ("ORCPT=bob@corp.test", True), ("ORCPT=;bob", True),
        ("ORCPT=rfc822;", True), ("ORCPT=x;y ORCPT=x;y", True), ("ORCPT=x;y orcpt=x;z", True), ("NOTIFY=DELAY notify=NEVER", True),
    ],
)  # fmt: skip
def test_a_notify_or_orcpt_that_is_malformed_or_given_twice_is_invalid(parameters: str, invalid: bool) -> None:
    assert has_invalid_rcpt_parameter(f"TO:<bob@corp.test> {parameters}") is invalid


@pytest.mark.parametrize(
    ("parameters", "invalid"),
    [
        ("", False), ("RET=full ENVID=a", False), ("RET=HDRS", False), ("RET=SOME", True), ("RET=", True),
        ("RET=FULL RET=FULL", True), ("ENVID=a ENVID=a", True), ("RET=FULL ret=HDRS", True), ("ENVID=a envid=b", True),
    ],
)  # fmt: skip
def test_a_ret_that_is_not_full_or_hdrs_and_a_ret_or_envid_given_twice_are_invalid(
    parameters: str, invalid: bool
) -> None:
    assert has_invalid_mail_parameter(f"FROM:<alice@outside.test> {parameters}") is invalid


def test_a_parameter_that_is_not_offered_is_refused_and_the_session_goes_on(tmp_path: Path) -> None:
    async def steps(address: tuple[str, int]) -> None:
        said = await say(
            address,
            {"code": 220}, {"say": "EHLO outside.test", "code": 250},
            {"say": "MAIL FROM:<alice@outside.test> BOGUS=1", "code": 555},
            {"say": "MAIL FROM:<alice@outside.test> RET=HDRS", "code": 250},
            {"say": "RCPT TO:<victor@outside.test> BOGUS=1", "code": 555},
            {"say": "RCPT TO:<victor@outside.test> NOTIFY=MAYBE", "code": 501},
            {"say": "RCPT TO:<victor@outside.test> NOTIFY=NEVER ORCPT=rfc822;victor@outside.test", "code": 250},
            {"say": "QUIT", "code": 221},
        )  # fmt: skip
        assert said.problem == ""

    with_hub2(tmp_path, None, steps)
