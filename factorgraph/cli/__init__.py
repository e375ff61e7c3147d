"""The command `factorgraph`: the library from a shell. Every error of a user's is one sentence and a non-zero exit."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from factorgraph.cli import content, data, demo, evaluating, laws, measuring, predicting, serving, studying
from factorgraph.errors import FactorGraphError

app = typer.Typer(
    name="factorgraph",
    help="Predict how long one LLM-inference step takes on a GPU that nobody has profiled, and say why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
predicting.register(app)
serving.register(app)
evaluating.register(app)
content.register(app)
data.register(app)
laws.register(app)
studying.register(app)
measuring.register(app)
demo.register(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from factorgraph import __version__

        typer.echo(f"factorgraph {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; what the user got wrong is said in one sentence on stderr, with exit status 1."""
    _remember_compiled_code()
    try:
        app()
    except FactorGraphError as error:
        sys.exit(f"factorgraph: {error}")
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        sys.exit(f"factorgraph: {error.strerror or error}{where}; check the path and its permissions")


def _remember_compiled_code() -> None:
    """Let JAX keep what it compiled, so that a command asked a second time answers at once."""
    import jax

    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "factorgraph" / "compiled"
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
