#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what the compiler made of every GPU kernel against a table of budgets, and prints a table of occupancy.

check_resources.py registers BUDGETS OBJECT...     from the reports of ptxas, OBJECT.ptxas
check_resources.py instructions BUDGETS OBJECT...  from the machine code, which cuobjdump and nvdisasm print

Ends with status 1 when a kernel is over its budget, spills registers, has products of warpgroups that ptxas runs one after
the other, keeps anything in local memory, lacks the wide
accesses that it should have or stores in smaller ones, or is not in the table; 77 when the tools are missing.
"""

import collections
import re
import shutil
import subprocess
import sys
from pathlib import Path

Budget = collections.namedtuple("Budget", "source pattern threads shared_bytes registers is_wide narrow_stores")
Kernel = collections.namedtuple("Kernel", "source name architecture")

SKIPPED = 77
REGISTERS_OF_MULTIPROCESSOR = 65536
WARPS_OF_MULTIPROCESSOR = 64
MAX_BLOCKS = 32
# Shared memory of a multiprocessor in KiB, of which every block takes one more than it asks for.
SHARED_KIB = {"80": 164, "86": 100, "89": 100, "90": 228}


def read_budgets(path):
    budgets = []
    for line in Path(path).read_text().splitlines():
        if line and not line.startswith("#"):
            source, pattern, threads, shared_bytes, registers, access = line.split()
            kind, _, narrow_stores = access.partition("+")
            budgets.append(
                Budget(source, re.compile(pattern), int(threads), int(shared_bytes), int(registers), kind == "wide", int(narrow_stores or 0))
            )
    return budgets


def demangle(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, text.splitlines()))


def short_name(name):
    """forward_kernel<float, 4> of void sft::ops::cuda::(anonymous namespace)::forward_kernel<float, 4>(Arguments)"""
    name = re.sub(r"\(anonymous namespace\)::|sft::ops::cuda::|sft::comm::|^void ", "", name)
    return name.split("(")[0]


def budget_of(kernel, budgets, used):
    for budget in budgets:
        if budget.source == kernel.source and budget.pattern.fullmatch(kernel.name):
            used.add(budget)
            return budget
    return None


def source_of(object_file):
    return Path(object_file).name.removesuffix(".o")


def read_reports(objects):
    """Registers and bytes of stack and spills of every kernel."""
    mangled = {}
    for object_file in objects:
        name = architecture = None
        report = Path(object_file + ".ptxas")
        if not report.exists():
            sys.exit(f"error: {report} is missing (nvcc has not compiled this source yet): build everything first")
        for line in report.read_text().splitlines():
            if match := re.search(r"Compiling entry function '(\S+)' for 'sm_(\w+)'", line):
                name, architecture = match.groups()
            elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill", line):
                memory = [int(number) for number in match.groups()]
            elif (match := re.search(r"Used (\d+) registers", line)) and name:
                mangled[source_of(object_file), name, architecture] = (int(match[1]), memory)
                name = None
    names = demangle([key[1] for key in mangled])
    return {Kernel(source, short_name(names[name]), architecture): value for (source, name, architecture), value in mangled.items()}


def serialized_products(objects):
    """The lines in which ptxas says that wgmma instructions wait for one another."""
    lines = [(source_of(object_file), line) for object_file in objects for line in Path(object_file + ".ptxas").read_text().splitlines()]
    return [f"{source}: {line}" for source, line in lines if "wgmma" in line and "serialized" in line]


def blocks_of_multiprocessor(kernel, budget, registers):
    warps = (budget.threads + 31) // 32
    registers_of_warp = (registers * 32 + 255) // 256 * 256
    limits = [MAX_BLOCKS, WARPS_OF_MULTIPROCESSOR // warps, REGISTERS_OF_MULTIPROCESSOR // registers_of_warp // warps]
    shared_kib = SHARED_KIB.get(kernel.architecture.rstrip("af"))
    if shared_kib:
        limits.append(shared_kib * 1024 // (budget.shared_bytes + 1024))
    return min(limits), warps


def check_registers(budgets, objects):
    faults, used = [], set()
    print(f"{'kernel':74} {'sm':>4} {'threads':>7} {'shared':>7} {'registers':>9} {'blocks':>6} {'occupancy':>9}")
    for kernel, (registers, memory) in sorted(read_reports(objects).items()):
        where = f"{kernel.source} {kernel.name} for sm_{kernel.architecture}"
        budget = budget_of(kernel, budgets, used)
        if budget is None:
            faults.append(f"{where} has no budget")
            continue
        blocks, warps = blocks_of_multiprocessor(kernel, budget, registers)
        occupancy = f"{100 * blocks * warps // WARPS_OF_MULTIPROCESSOR} %"
        name = f"{kernel.source} {kernel.name}"
        name = name if len(name) <= 74 else name[:71] + "..."
        print(f"{name:74} {kernel.architecture:>4} {budget.threads:7} {budget.shared_bytes:7} {registers:9} {blocks:6} {occupancy:>9}")
        if any(memory):
            faults.append(f"{where} spills: {memory[0]} bytes of stack, {memory[1]} of stores, {memory[2]} of loads")
        if registers > budget.registers:
            faults.append(f"{where} uses {registers} registers, {budget.registers} are its budget")
        if blocks == 0:
            faults.append(f"{where} does not fit into a multiprocessor")
    faults += serialized_products(objects)
    return faults + [f"{budget.source} {budget.pattern.pattern}: no such kernel" for budget in budgets if budget not in used]


def read_machine_code(object_file):
    """Of every kernel: how many accesses of device memory move 16 bytes a thread, how many stores fewer than 8, and how many
    accesses are of local memory."""
    text = subprocess.run(["cuobjdump", "-sass", object_file], capture_output=True, text=True, check=True).stdout
    counts, architecture, key = {}, None, None
    for line in text.splitlines():
        if match := re.search(r"arch = sm_(\w+)", line):
            architecture = match[1]
        elif match := re.search(r"Function : (\S+)", line):
            key = (match[1], architecture)
            counts[key] = [0, 0, 0]
        elif key:
            counts[key][0] += bool(re.search(r"\b(LDG|STG|LDGSTS)\b\S*\.128", line))
            counts[key][1] += bool(re.search(r"\bSTG\b(?!\S*\.(64|128))", line))
            counts[key][2] += bool(re.search(r"\b(LDL|STL)\b", line))
    names = demangle([name for name, _ in counts])
    return {
        Kernel(source_of(object_file), short_name(names[name]), architecture): count
        for (name, architecture), count in counts.items()
    }


def check_instructions(budgets, objects):
    if not shutil.which("cuobjdump") or not shutil.which("nvdisasm"):
        print("skipped: cuobjdump and nvdisasm are not in PATH (CUDA has them; PyPI: nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm)")
        sys.exit(SKIPPED)
    faults, used, num_kernels = [], set(), 0
    for object_file in objects:
        for kernel, (num_wide, num_narrow_stores, num_local) in read_machine_code(object_file).items():
            num_kernels += 1
            where = f"{kernel.source} {kernel.name} for sm_{kernel.architecture}"
            budget = budget_of(kernel, budgets, used)
            if num_local:
                faults.append(f"{where} has {num_local} accesses of local memory")
            if budget and budget.is_wide and not num_wide:
                faults.append(f"{where} has no access of 16 bytes")
            if budget and budget.is_wide and num_narrow_stores > budget.narrow_stores:
                faults.append(f"{where} has {num_narrow_stores} stores of fewer than 8 bytes, {budget.narrow_stores} are its budget")
    print(f"{num_kernels} kernels looked at")
    return faults


def main():
    mode, budget_file, *objects = sys.argv[1:]
    check = {"registers": check_registers, "instructions": check_instructions}[mode]
    faults = check(read_budgets(budget_file), objects)
    for fault in faults:
        print(f"error: {fault}")
    sys.exit(1 if faults else 0)


main()
