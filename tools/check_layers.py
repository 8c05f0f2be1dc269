#!/usr/bin/env python3
"""Checks that the rooms of src/ depend on each other only as the arrows in src/CMakeLists.txt say.

Read from there: `munia_room(NAME deps...)`, and `munia_program(NAME deps...)` likewise; from
python/CMakeLists.txt `munia_binding(NAME deps...)`, for the sources of python/. Checked in every file
below src/ and of python/:
  - `#include "room/header.h"` names the own room or one that is reachable by the arrows;
  - kernels/kernels.h is the only header of its room that others include;
  - preprocessor conditions on instruction sets or platforms, and intrinsics headers, stand in
    kernels/ and base/ only;
  - a library that belongs to one place (HTTP, sockets, curl, archives, logs) is included only there.
Prints one line per violation, file:line: what; exits 1 when there is any.
"""

import re
import sys
from pathlib import Path

ARROW = re.compile(r"^\s*munia_(?:room|program|binding)\(\s*(\w+)\s*([^)]*)\)", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
CONDITION = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b(.*)")
PLATFORM = re.compile(
    r"\b(?:__x86_64__|__i386__|__amd64__|_M_X64|_M_IX86|_M_ARM64|__aarch64__|__arm__|__riscv\w*"
    r"|__(?:AVX|SSE|FMA|F16C|AMX|BMI|ARM|SSSE)\w*|__linux__|__APPLE__|__MACH__|__FreeBSD__"
    r"|_WIN32|_WIN64|__ANDROID__|__BYTE_ORDER__)"
)
INTRINSICS = re.compile(r"^(?:\w*intrin|arm_\w+|cpuid)\.h$")
PLATFORM_ROOMS = {"base", "kernels"}

# Library header prefix -> the paths below src/ that may include it.
LIBRARY_PLACES = {
    "boost/beast": ("server/http_server",),
    "boost/asio": ("server/http_server",),
    "curl/": ("hub/", "cli/load_client.cpp"),
    "archive": ("hub/",),
    "spdlog/": ("cli/", "server/"),
    "CLI/": ("cli/",),
    "nanobind/": ("python/",),
}


def read_arrows(cmake_text):
    """{room: set of rooms named directly} from the text of src/CMakeLists.txt."""
    text = re.sub(r"#[^\n]*", "", cmake_text)
    arrows = {}
    for room, dependencies in ARROW.findall(text):
        arrows[room] = set(re.findall(r"\bmunia_(\w+)", dependencies)) - {"flags"}
    return arrows


def reachable(arrows):
    """{room: all rooms that it may include}, itself among them. ValueError on a cycle."""
    done = {}

    def visit(room, path):
        if room in path:
            raise ValueError("a cycle of rooms: " + " -> ".join(path + [room]))
        if room not in done:
            seen = {room}
            for dependency in arrows.get(room, ()):
                seen |= visit(dependency, path + [room])
            done[room] = seen
        return done[room]

    for room in arrows:
        visit(room, [])
    return done


def strip_comments(text):
    """Comments blanked, line numbers kept. Strings that hold // are rare enough to lose."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.DOTALL)
    return re.sub(r"(?<!:)//[^\n]*", "", text)


def check_file(relative, text, allowed, rooms):
    """Violations of one file as (line, sentence). `allowed` is None for an undeclared room."""
    room = relative.parts[0]
    for number, line in enumerate(strip_comments(text).splitlines(), start=1):
        include = INCLUDE.match(line)
        if include:
            quoted, header = include.group(1) == '"', include.group(2)
            target = header.split("/")[0]
            if quoted and "/" not in header:
                yield number, f'"{header}" must be included by its room: "{room}/{header}"'
            elif quoted and target in rooms:
                if allowed is not None and target not in allowed:
                    yield number, f"{room} may not include {header}: no arrow leads to {target}"
                elif target == "kernels" and room != "kernels" and header != "kernels/kernels.h":
                    yield number, f"{header} is private to kernels; include kernels/kernels.h"
            if INTRINSICS.match(header) and room not in PLATFORM_ROOMS:
                yield number, f"<{header}> belongs in kernels/ or base/"
            for prefix, places in LIBRARY_PLACES.items():
                if not quoted and header.startswith(prefix):
                    if not str(relative).startswith(places):
                        yield number, f"<{header}> may be included in {', '.join(places)} only"
        condition = CONDITION.match(line)
        if condition and room not in PLATFORM_ROOMS:
            found = PLATFORM.search(condition.group(1))
            if found:
                yield number, f"a condition on {found.group()} belongs in kernels/ or base/"


def check_tree(source_dir, bindings=()):
    """All violations below `source_dir`, and in the folders `bindings`, as printable lines."""
    source_dir = Path(source_dir)
    arrows = read_arrows((source_dir / "CMakeLists.txt").read_text(encoding="utf-8"))
    for binding in bindings:
        arrows |= read_arrows((Path(binding) / "CMakeLists.txt").read_text(encoding="utf-8"))
    rooms = {path.name for path in source_dir.iterdir() if path.is_dir()} | set(arrows)
    try:
        closure = reachable(arrows)
    except ValueError as error:
        return [f"{source_dir}/CMakeLists.txt: {error}"]
    lines = [
        f"{source_dir}/CMakeLists.txt: {room} depends on {dependency}, which is not declared"
        for room in sorted(arrows)
        for dependency in sorted(arrows[room] - set(arrows))
    ]
    undeclared = set()
    files = [(source_dir, path) for path in sorted(source_dir.rglob("*"))]
    for binding in map(Path, bindings):
        files += [(binding.parent, path) for path in sorted(binding.iterdir())]
    for base, path in files:
        if path.suffix not in {".h", ".cpp", ".cc", ".hpp", ".inc", ".inl"}:
            continue
        relative = path.relative_to(base)
        if len(relative.parts) < 2:
            lines.append(f"{path}: a source file must stand in a room")
            continue
        room = relative.parts[0]
        if room not in arrows and room not in undeclared:
            undeclared.add(room)
            # A room of headers alone is a contract whose arrow comes with its first source.
            if any((source_dir / room).glob("*.cpp")):
                lines.append(f"{source_dir / room}: no munia_room({room} …) in CMakeLists.txt")
        text = path.read_text(encoding="utf-8", errors="replace")
        for number, sentence in check_file(relative, text, closure.get(room), rooms):
            lines.append(f"{path}:{number}: {sentence}")
    return lines


def check_project(root):
    return check_tree(root / "src", [root / "python"])


def main():
    root = Path(__file__).resolve().parent.parent
    lines = check_tree(sys.argv[1]) if len(sys.argv) > 1 else check_project(root)
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
