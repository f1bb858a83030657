"""Ed25519 signatures, by the package `cryptography`."""

from __future__ import annotations

from ._errors import TradeThesisError


def is_signed(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the key has signed the message."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise TradeThesisError("Ed25519 needs the package cryptography: pip install 'trade-thesis[ed25519]'") from error
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
