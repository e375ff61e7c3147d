"""`pytest --law` judges a law, and costs nothing where none is asked for."""

import subprocess
import sys
from pathlib import Path

ZOO = Path(__file__).with_name("zoo.py")


def run(*words, cwd):
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_each_check_of_each_law_is_a_test_and_nothing_else_is_run(tmp_path):
    (tmp_path / "test_other.py").write_text("def test_fails():\n    assert False\n")
    done = run("pytest", "-q", "--law", "factorgraph.laws.host:HostResidual", "--law", f"{ZOO}:WrongSign", cwd=tmp_path)
    assert done.returncode == 1
    assert "law WrongSign fails 'monotone': t_light falls from" in done.stdout
    assert "smallest example: light_bytes = 1 B" in done.stdout
    assert "HostResidual" not in done.stdout
    assert "test_fails" not in done.stdout
    assert "Traceback" not in done.stdout


def test_a_law_that_is_not_there_is_told_in_one_sentence(tmp_path):
    done = run("pytest", "-q", "--law", "factorgraph.laws.host:HostResidul", cwd=tmp_path)
    assert done.returncode == 4
    assert (
        done.stderr.strip() == "ERROR: unknown law in factorgraph.laws.host 'HostResidul'; did you mean 'HostResidual'?"
    )


def test_without_hypothesis_the_package_works_and_the_kit_says_what_to_install(tmp_path):
    script = tmp_path / "bare.py"
    script.write_text(
        "import sys\n"
        "sys.modules['hypothesis'] = None\n"
        "import factorgraph.testing.pytest_plugin\n"
        "try:\n"
        "    from factorgraph.testing import check_law\n"
        "except factorgraph.FactorGraphError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "factorgraph.testing needs Hypothesis; install gpu-factorgraph[testing]"


def test_the_kit_is_not_loaded_with_the_package():
    loaded = "import sys, factorgraph, factorgraph.testing; print('hypothesis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
