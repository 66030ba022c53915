"""What the tests need beside Python: MariaDB, Redis, a browser and Node.js of Debian, and packages of npm.

As root they are installed; otherwise they are unpacked under .tools/servers, where `tests/servers.py` looks as well.
Node.js and npm are too many packages to be unpacked: they need root. Packages of npm go to .tools/npm, by version.
What is there already is left alone, so a second run costs nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNPACKED = ROOT / ".tools" / "servers"
NPM = ROOT / ".tools" / "npm"

#: Not a program: letters, without which a browser shows boxes.
KOREAN = "a Korean font"
#: A program that shows a package is there, and the packages that bring it.
WANTED = {
    "mariadbd": ("mariadb-server-core", "mariadb-client-core"),
    "mariadb-dump": ("mariadb-client",),
    "redis-server": ("redis-server", "redis-tools"),
    "chromium": ("chromium",),
    KOREAN: ("fonts-noto-cjk",),
    "node": ("nodejs",),
    "npm": ("npm",),
}
NEED_ROOT = ("node", "npm")
#: For the Express receiver of docs/examples and for the client that is generated from OpenAPI.
NPM_PACKAGES = {
    "express": "5.3.0",
    "typescript": "5.9.3",
    "@types/express": "5.0.6",
    "@types/node": "18.19.130",
    "openapi-typescript": "7.13.0",
    "openapi-fetch": "0.17.0",
}


def found(program: str) -> str | None:
    """Where a program is: on the path, where Debian keeps servers, or where this script unpacked it."""
    if program == KOREAN:
        return _korean()
    places = [os.environ.get("PATH", ""), "/usr/sbin", str(UNPACKED / "usr/sbin"), str(UNPACKED / "usr/bin")]
    return shutil.which(program, path=os.pathsep.join(places))


def _korean() -> str | None:
    unpacked, lister = UNPACKED / "usr/share/fonts", shutil.which("fc-list")
    if lister is None or unpacked.is_dir():
        return str(unpacked) if unpacked.is_dir() else None
    listed = subprocess.run([lister, ":lang=ko", "file"], capture_output=True, text=True, check=False)
    return listed.stdout.strip() or None


def call(command: list[str], folder: Path) -> None:
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | quiet, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")


def install(packages: list[str]) -> None:
    """Start no service: the tests start private ones on free ports."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        if os.geteuid() == 0:
            call(["apt-get", "update", "-q"], here)
            call(
                ["apt-get", "install", "-q", "-y", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0", *packages], here
            )
            return
        packages = [each for each in packages if not any(each in WANTED[program] for program in NEED_ROOT)]
        if not packages:
            return
        call(["apt-get", "download", "-q", *packages], here)
        UNPACKED.mkdir(parents=True, exist_ok=True)
        for package in sorted(here.glob("*.deb")):
            call(["dpkg", "-x", str(package), str(UNPACKED)], here)


def missing_npm_packages() -> list[str]:
    """The packages that are not there in their version, as npm takes them."""

    def version(name: str) -> str | None:
        about = NPM / "node_modules" / name / "package.json"
        return json.loads(about.read_text("utf-8"))["version"] if about.exists() else None

    return [f"{name}@{wanted}" for name, wanted in NPM_PACKAGES.items() if version(name) != wanted]


def install_npm_packages() -> int:
    """All of them at once, so that they fit one another. No lock is written: it would name a registry."""
    if not missing_npm_packages():
        return 0
    NPM.mkdir(parents=True, exist_ok=True)
    (NPM / "package.json").write_text('{"private": true}\n', "utf-8")
    packages = [f"{name}@{version}" for name, version in NPM_PACKAGES.items()]
    print(f"installing {', '.join(packages)}", flush=True)
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    try:
        call([str(found("npm")), "install", *options, *packages], NPM)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
    still = missing_npm_packages()
    if still:
        print(f"the tests need packages of npm: npm install --prefix .tools/npm {' '.join(still)}", file=sys.stderr)
        return 2
    return 0


def main() -> int:
    missing = [program for program in WANTED if found(program) is None]
    if not missing:
        return install_npm_packages()
    packages = [package for program in missing for package in WANTED[program]]
    print(f"installing {', '.join(packages)}", flush=True)
    try:
        install(packages)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
    still = [program for program in missing if found(program) is None]
    if still:
        names = " ".join(package for program in still for package in WANTED[program])
        print(f"the tests need {', '.join(still)}: apt-get install {names}", file=sys.stderr)
        return 2
    return install_npm_packages()


if __name__ == "__main__":
    sys.exit(main())
