"""Public headers as C99 and C++11, in strict compilers; private ones stand alone."""
import shutil
import subprocess

import pytest
from source import BUILD, SOURCE, files, rel

STRICT = ["-fsyntax-only", "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Wundef", "-Werror"]
LANGUAGES = [("gcc", "c", "c99"), ("gcc", "c", "c17"), ("g++", "c++", "c++11"),
             ("g++", "c++", "c++20"), ("clang", "c", "c99"), ("clang++", "c++", "c++11")]
PUBLIC = ["wq.h", "wq_libevent.h"]


def compile_text(compiler, language, standard, text, *flags):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    done = subprocess.run(
        [compiler, "-x", language, f"-std={standard}", *flags, "-"], input=text,
        capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("compiler,language,standard", LANGUAGES)
@pytest.mark.parametrize("header", PUBLIC)
def test_public_header(header, compiler, language, standard):
    if not (SOURCE / "include" / header).exists():
        pytest.skip(f"{header} does not exist")
    text = f"#include <{header}>\n#include <{header}>\nint main(void) {{ return 0; }}\n"
    compile_text(compiler, language, standard, text, *STRICT, f"-I{SOURCE / 'include'}")


def test_private_headers_stand_alone():
    """Each compiles as the first include of a file."""
    if not (BUILD / "config.h").exists():
        pytest.skip("the tree is not configured")
    for path in files("daemon"):
        if path.suffix != ".h":
            continue
        compile_text("gcc", "c", "gnu17", f'#include "{rel(path)}"\n', "-fsyntax-only", "-Wall",
                     "-Wextra", "-Werror", "-Wno-unused-function", "-D_GNU_SOURCE", "-include",
                     str(BUILD / "config.h"), f"-I{SOURCE}", f"-I{SOURCE / 'daemon'}",
                     f"-I{BUILD / 'proto'}")
