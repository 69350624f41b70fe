"""Chat templates: jinja2 as the model hubs use it, fenced in."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any

from ..errors import UserError
from .backends import finder, split

MAX_SECONDS = 3.0  # the longest that a template may take; real ones take a millisecond
MAX_REPEAT = 1_000_000  # the longest text or list that a template may make by multiplying


class _TooLong(Exception):
    pass


def render(
    template: str,
    messages: Sequence[dict[str, Any]],
    specials: dict[str, str] | None = None,
    *,
    name: str = "this model",
    add_generation_prompt: bool = True,
    **options: Any,
) -> str:
    """The prompt that `template` makes of `messages`. Raises UserError when it fails, refuses, or does not end."""
    import jinja2

    try:
        with _time_limit(MAX_SECONDS):
            return _compiled(template).render(
                {"tools": None, "documents": None, **(specials or {}), **options},
                messages=[dict(m) for m in messages],
                add_generation_prompt=add_generation_prompt,
            )
    except _TooLong:
        raise UserError(f"The chat template of {name} does not come to an end; use raw prompts with it.") from None
    except jinja2.TemplateError as error:
        what = str(error).rstrip(".")
        raise UserError(f"The chat template of {name} failed: {what}. Use a raw prompt with it.") from None
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError, MemoryError) as error:
        what = f"{type(error).__name__}: {error}"
        raise UserError(f"The chat template of {name} failed ({what}). Use a raw prompt with it.") from None


@lru_cache(maxsize=16)
def _compiled(template: str):
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """{% generation %} marks the assistant's words for training; here it only shows its content."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    class Environment(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(("*", "**"))

        def call_binop(self, context, operator, left, right):
            sized = [len(x) for x in (left, right) if hasattr(x, "__len__")]
            times = [x for x in (left, right) if isinstance(x, int)]
            if (operator == "**" and times and max(map(abs, times)) > 1000) or (
                sized and times and sized[0] * times[0] > MAX_REPEAT
            ):
                raise TemplateError("it asks for something far too large")
            return super().call_binop(context, operator, left, right)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = Environment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(template)


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise _TooLong in this thread when the code inside takes longer.

    A template is compiled to Python, and a thread cannot be killed: so every line that it runs looks at the clock.
    """
    end = time.monotonic() + seconds

    def trace(frame, event, argument):
        if time.monotonic() > end:
            raise _TooLong
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


class Guard:
    """Keeps the names of special tokens in people's words from becoming special tokens.

    The template runs over messages in which each such name has an invisible mark behind its first character, so
    that it can be told from those the template itself writes; the marks are taken out again afterwards.
    """

    def __init__(self, names: Sequence[str], messages: Sequence[dict[str, Any]]) -> None:
        self._finder = finder(names)
        said = "".join(str(m.get("content")) for m in messages)
        self.needed = self._finder is not None and self._finder.search(said) is not None
        self._mark = next(c for c in map(chr, range(0xE000, 0xF8FF)) if c not in said)
        self.messages = [self._marked(m) for m in messages] if self.needed else list(messages)

    def _marked(self, message: dict[str, Any]) -> dict[str, Any]:
        content = message.get("content")
        if not isinstance(content, str):
            return dict(message)
        return {**message, "content": self._finder.sub(lambda m: m[0][0] + self._mark + m[0][1:], content)}

    def clean(self, text: str) -> str:
        return text.replace(self._mark, "")

    def parts(self, text: str) -> list[tuple[str, bool]]:
        """The template's text as (stretch, is it one special token), marks gone."""
        return [(self.clean(part), special) for part, special in split(self._finder, text)]
