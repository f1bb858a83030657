"""Why a receipt proves nothing."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ._errors import TradeThesisError

Reason: TypeAlias = Literal[
    "unreadable",
    "number",
    "evidence",
    "entry",
    "salt",
    "form",
    "origin",
    "thesis",
    "file",
    "index",
    "sequence",
    "dataset",
    "livemode",
    "keys",
    "key",
    "unsigned",
    "signature",
    "untrusted",
    "beyond",
    "length",
    "root",
    "witness",
]
"""What is wrong. The guide "Receipts" explains each word."""


class ReceiptError(TradeThesisError):
    """A document proves nothing."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        """What is wrong. `unreadable` is no receipt at all."""

    def __reduce__(self) -> tuple[type[ReceiptError], tuple[Reason, str]]:
        return type(self), (self.reason, str(self))


def demand(holds: bool, reason: Reason, message: str) -> None:
    """Fails unless a condition holds."""
    if not holds:
        raise ReceiptError(reason, message)
