"""Brings what libsquare logs to Python's ``logging``, under the logger ``square``.

The library drops its messages until somebody asks for them::

    logging.basicConfig()
    square.log.connect(logging.INFO)

Every record says what it is about in fields of its own: ``component`` always, and where it applies
``node``, ``peer``, ``collective`` and ``epoch``. A program that wants them as JSON takes JsonFormatter.
"""

import atexit
import json
import logging
import time
from collections.abc import Mapping

from square import _core

# What a record may have beside its message.
FIELDS = ("component", "node", "peer", "collective", "epoch")

# A program that does not configure logging sees nothing of ours.
logging.getLogger("square").addHandler(logging.NullHandler())


def connect(minimum: int = logging.INFO) -> None:
    """Passes messages of ``minimum`` and above on to ``square.<component>``.

    The library's levels have the numbers of ``logging``. Replaces an earlier call.
    """
    _core.set_log(_forward, minimum)


def disconnect() -> None:
    """Drops the library's messages again."""
    _core.set_log(None)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time`` (UTC), ``level``, ``logger``, ``message``, and the record's fields.

    For messages of any logger; ``exception`` holds a traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update({name: value for name in FIELDS if (value := getattr(record, name, None)) is not None})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _forward(level: int, message: str, fields: Mapping[str, str | int]) -> None:
    logger = logging.getLogger(f"square.{fields['component']}")
    logger.log(level, "%s", message, extra=dict(fields))


# Threads of the library may outlive the interpreter by a moment.
atexit.register(disconnect)
