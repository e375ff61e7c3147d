"""The package works from any folder: from the checkout, and as a wheel built from the source distribution."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.install
CHECKOUT = Path(__file__).parent.parent.parent
PROBE = """
import factorgraph as fg, factorgraph
from factorgraph.paths import data_root
out = fg.step_graph().predict(fg.load_sku("h100-sxm"), fg.load_model("llama-3.1-8b").decode(batch=1, context=128))
print(factorgraph.__file__, data_root("hardware"), 0 < float(out.t_step) < 1, len(fg.list_datasets()) > 0, sep="|")
"""


def run(*command: str, cwd: Path, **env: str) -> str:
    done = subprocess.run(command, cwd=cwd, env=os.environ | env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def wheel_site(tmp_path_factory) -> Path:
    """A folder into which the wheel was installed that was built from the sdist."""
    dist, site = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("site")
    # Without --wheel or --sdist, build makes the sdist and then the wheel from it.
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(CHECKOUT), cwd=dist)
    (wheel,) = dist.glob("gpu_factorgraph-*.whl")
    assert list(dist.glob("gpu_factorgraph-*.tar.gz"))
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site))
    run(*pip, str(wheel), cwd=dist)
    return site


def test_the_checkout_works_from_elsewhere(tmp_path):
    package, cards, predicts, has_data = run(sys.executable, "-c", PROBE, cwd=tmp_path).strip().split("|")
    assert Path(package) == CHECKOUT / "factorgraph" / "__init__.py"
    assert Path(cards) == CHECKOUT / "hardware"
    assert (predicts, has_data) == ("True", "True")


def test_a_wheel_from_the_sdist_works_from_elsewhere(wheel_site, tmp_path):
    output = run(sys.executable, "-c", PROBE, cwd=tmp_path, PYTHONPATH=str(wheel_site))
    package, cards, predicts, has_data = output.strip().split("|")
    assert Path(package) == wheel_site / "factorgraph" / "__init__.py"
    assert Path(cards) == wheel_site / "factorgraph" / "_data" / "hardware"
    assert (predicts, has_data) == ("True", "True")


def test_the_wheel_ships_all_content_and_no_python_beside_the_package(wheel_site):
    shipped = wheel_site / "factorgraph" / "_data"
    for kind in ("hardware", "models", "datasets", "studies"):
        ours = {
            path.relative_to(CHECKOUT / kind)
            for path in (CHECKOUT / kind).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        theirs = {
            path.relative_to(shipped / kind)
            for path in (shipped / kind).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert theirs == ours
    assert {path.name for path in wheel_site.iterdir() if path.suffix == ""} - {"bin"} == {"factorgraph"}


def test_the_command_of_the_wheel_runs(wheel_site, tmp_path):
    command = (sys.executable, "-m", "factorgraph", "--version")
    assert run(*command, cwd=tmp_path, PYTHONPATH=str(wheel_site)).startswith("factorgraph ")
