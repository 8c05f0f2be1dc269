#!/bin/sh
# Runs a program for 64-bit ARM under qemu: tools/arm64_run.sh PROGRAM ARGUMENT… with the libraries of
# build/arm64-root. QEMU_CPU names the CPU (cortex-a72, cortex-a76; by default max, which has all
# that qemu knows).
set -eu
exec qemu-aarch64 -L "$(dirname "$0")/../build/arm64-root" "$@"
