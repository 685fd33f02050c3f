"""Defects of AUTH (RFC 4954) at the front door: its order, its challenges, and what follows a failure.

The front door is the `frontend` listener, which serves clients and the Internet. `push` sends a reply. aiosmtpd calls `smtp_AUTH`
for the command and `auth_PLAIN` for its mechanism, with `args`: the word PLAIN and, if the client sent one, the initial response.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from aiosmtpd.smtp import AuthResult

from conformance.reference.defects.defect import defect
from conformance.reference.receive.session import Receiver


@defect("authenticates-again", breaks="RL-AUT-01", slot="receiver")
class AuthenticatesAgain(Receiver):
    """Takes AUTH once more after it has succeeded."""

    async def smtp_AUTH(self, arg: str) -> None:
        """Handle AUTH as if the client had not authenticated before; correct is to refuse a second AUTH with 503."""
        assert self.session is not None
        self.session.authenticated = False
        await super().smtp_AUTH(arg)


@defect("authenticates-amid-a-transaction", breaks="RL-AUT-01", slot="receiver")
class AuthenticatesAmidATransaction(Receiver):
    """Takes AUTH amid a mail transaction."""

    def refuses_auth_now(self) -> bool:
        """Return False: AUTH is never refused as out of order; correct is to refuse it while a mail transaction is open."""
        return False


@defect("answers-a-cancelled-auth-with-535", breaks="RL-AUT-02", slot="receiver")
class AnswersCancelledAuthWith535(Receiver):
    """Takes the response by which a client cancels AUTH for wrong credentials."""

    async def push(self, status: str | bytes) -> None:
        """Send a reply; in place of 501, that to a cancelled AUTH, send 535 (wrong credentials)."""
        is_cancelled = isinstance(status, str) and status.startswith("501 5.7.0 Auth aborted")
        await super().push("535 5.7.8 Authentication credentials invalid" if is_cancelled else status)


@defect("ends-the-session-after-535", breaks="RL-AUT-02", slot="receiver")
class EndsTheSessionAfter535(Receiver):
    """Closes the connection after the first wrong password."""

    async def push(self, status: str | bytes) -> None:
        """Send a reply, and close the connection after one with 535; correct is to let the client try again."""
        await super().push(status)
        if isinstance(status, str) and status.startswith("535"):
            self._close()


@defect("asks-for-no-response", breaks="RL-AUT-03", slot="receiver")
class AsksForNoResponse(Receiver):
    """Takes AUTH without an initial response for one with wrong credentials."""

    async def auth_PLAIN(self, _: object, args: list[str]) -> AuthResult:
        """Return the result of AUTH PLAIN: a failure, which is answered with 535, if the client sent no initial response.

        Correct is to ask for the response with 334 then; with an initial response the result is correct.
        """
        if len(args) == 1:
            return AuthResult(success=False, handled=False)
        return await super().auth_PLAIN(_, args)


@defect("takes-an-empty-response-for-none", breaks="RL-AUT-03", slot="receiver")
class TakesAnEmptyResponseForNone(Receiver):
    """Takes `=`, an empty initial response, for one that is still to come."""

    async def auth_PLAIN(self, _: object, args: list[str]) -> AuthResult:
        """Return the result of AUTH PLAIN; ask for the credentials with 334 where the initial response is `=`.

        `=` stands for an empty response (RFC 4954 4), which has no credentials: the correct class refuses it with 501.
        """
        return await super().auth_PLAIN(_, args[:1] if args[1:] == ["="] else args)
