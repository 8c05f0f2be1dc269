"""`make wheel`: the wheel carries the libraries it needs and works in an environment that has nothing
but numpy."""

import os
import re
import subprocess
import sys
import zipfile

import pytest
from munia_process import ROOT
from python_package import QWEN

USE = """
import sys, munia
assert "site-packages" in munia.__file__
with munia.Model(sys.argv[1]) as model:
    print(model.predict("今天真好", max_tokens=3).emotion, model.logits("好").shape)
"""


@pytest.mark.long
def test_the_wheel_works_alone(tmp_path):
    out = tmp_path / "wheel"
    built = subprocess.run([ROOT / "tools" / "wheel.sh", sys.executable, out], capture_output=True,
                           text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = out.glob("munia-*.whl")
    assert re.search(r"manylinux_2_\d+_x86_64|manylinux_2_\d+_aarch64", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {"munia/__init__.py", "munia/py.typed", "munia/_munia.pyi", "munia/sklearn.py"} <= set(names)
    assert not [name for name in names if name.startswith(("lib/", "bin/", "include/"))]
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pins = (ROOT / "tools" / "requirements-python.txt").read_text(encoding="utf-8").split()
    numpy = next(pin for pin in pins if pin.startswith("numpy=="))
    subprocess.run([venv / "bin" / "pip", "install", "--quiet", "--no-deps", numpy, wheel], check=True)
    extension = next(venv.rglob("_munia.*.so"))
    listed = subprocess.run(["ldd", extension], capture_output=True, text=True, check=True).stdout
    # From the system: what every Linux has. Everything else stands in the wheel.
    system = re.compile(r"(linux-vdso|ld-linux\S*|libc|libm|libstdc\+\+|libgcc_s|libpthread|libdl|librt)\.so")
    for line in listed.splitlines():
        name = line.split()[0].rsplit("/", 1)[-1]
        assert system.match(name) or "munia.libs" in line, line
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    used = subprocess.run([venv / "bin" / "python", "-c", USE, str(QWEN)], capture_output=True,
                          text=True, env=environment, cwd=tmp_path)
    assert used.returncode == 0 and "(400,)" in used.stdout, used.stdout + used.stderr
