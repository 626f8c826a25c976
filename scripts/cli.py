"""The command `jalapeno`: finds its sub-commands and turns every outcome into an exit code.

Exit codes: 0 done, 1 a check failed (a mismatch, a target missed), 2 bad input or usage (one sentence on
standard error), 130 interrupted.
"""

import importlib
import os
import pkgutil
import sys
import warnings
from importlib.metadata import version

import click

from scripts import commands

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


class CheckFailed(Exception):
    """A run that ended in order but whose check failed; the message is a sentence."""


class LazyCommands(click.Group):
    """A group whose members are the modules of `scripts.commands`, imported when asked for."""

    def list_commands(self, ctx):
        return sorted(module.name for module in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx, name):
        if name not in self.list_commands(ctx):
            return None
        return importlib.import_module(f"{commands.__name__}.{name}").command


SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=LazyCommands, context_settings=SETTINGS)
@click.version_option(version("jalapeno"), message="%(prog)s %(version)s")
def jalapeno():
    """An open RTL model of OpenAI's Jalapeño inference chip, checked bit for bit.

    Set JALAPENO_DEBUG=1 to see the traceback behind an error.
    """


def _say(text: str) -> None:
    print(f"jalapeno: {' '.join(text.split())}", file=sys.stderr)


def run(arguments: list[str] | None = None) -> int:
    """Runs `jalapeno` with `arguments` (default: those of the process); returns the exit code."""
    try:
        # Not click's own main(): it would print several lines for an error, and hide a closed pipe.
        with jalapeno.make_context("jalapeno", list(sys.argv[1:] if arguments is None else arguments)) as ctx:
            jalapeno.invoke(ctx)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as early:
        return early.exit_code
    except (click.Abort, KeyboardInterrupt):
        # Parts of a design that was being made are not used now; nobody wants to hear of it.
        warnings.filterwarnings("ignore", message=".*created but never used")
        _say("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`jalapeno ... | head`); keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.ctx.get_help(), file=sys.stderr)
        return EXIT_USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "jalapeno"
        _say(f"{error.format_message().rstrip('.')}; see '{where} --help'")
        return EXIT_USAGE
    except click.ClickException as error:
        _say(error.format_message())
        return EXIT_USAGE
    except CheckFailed as error:
        _say(str(error))
        return EXIT_FAILED
    except (ValueError, OSError) as error:
        if os.environ.get("JALAPENO_DEBUG"):
            raise
        _say(str(error) or type(error).__name__)
        return EXIT_USAGE


def main() -> None:
    """Entry point of the command."""
    sys.exit(run())


if __name__ == "__main__":
    main()
