"""Holds the dashboard against Grafana's published schema, as its Foundation SDK for Python has it.

What the schema does not know gets lost on the way through the SDK's classes; what it knows has to have the
type that it says. Says each finding and ends with 1 if there is any.
"""

import enum
import json
import sys
import types
import typing

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard

SDK = dashboard.__name__.split(".")[0]


def unknown(here, there, path=""):
    """Places of `here` that are not the same in `there`, which went through the schema."""
    if isinstance(here, dict) and isinstance(there, dict):
        for key, value in here.items():
            if key in there:
                yield from unknown(value, there[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}: not in the schema"
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for index, (one, other) in enumerate(zip(here, there)):
            yield from unknown(one, other, f"{path}[{index}]")
    elif here != there:
        yield f"{path}: {here!r} is {there!r} to the schema"


def conforms(value, hint):
    """Is `value`, read from JSON, of the type `hint`? Choices are there as what they are in JSON."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (typing.Any, object):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(conforms(value, option) for option in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is list:
        return isinstance(value, list) and all(conforms(one, arguments[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(conforms(one, arguments[1]) for one in value.values())
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return value in [choice.value for choice in hint]
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def mistyped(thing, path=""):
    """Fields, of any depth, that have not the type that the schema says."""
    if isinstance(thing, list):
        for index, element in enumerate(thing):
            yield from mistyped(element, f"{path}[{index}]")
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield from mistyped(value, f"{path}.{key}")
    elif type(thing).__module__.startswith(SDK) and hasattr(thing, "__dict__"):
        hints = typing.get_type_hints(type(thing))
        for name, value in vars(thing).items():
            hint = hints.get(name, typing.Any)
            if not conforms(value, hint):
                yield f"{path}.{name}: {value!r} is no {hint}"
            yield from mistyped(value, f"{path}.{name}")


def main(file):
    register_default_plugins()
    with open(file, encoding="utf-8") as text:
        source = json.load(text)
    board = dashboard.Dashboard.from_json(source)
    back = json.loads(JSONEncoder().encode(board))
    findings = [*unknown(source, back), *mistyped(board)]
    for finding in findings:
        print(f"{file}: {finding}", file=sys.stderr)
    print(f"{file}: {len(board.panels)} panels, {len(findings)} findings")
    return 1 if findings or not board.panels else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
