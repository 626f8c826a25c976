"""Random programs on the core, each instruction against the sequential model; long runs in `make nightly`."""

import pytest

from tb.core.campaign import HBM, SIZES, campaign, campaign_bench, random_case, run_case
from tb.core.random_program import PROFILES
from tb.core.run import CoreSimulator

INSTRUCTIONS = {"tiny": 45_000, "small": 35_000, "wide": 25_000}
NIGHTLY = {"tiny": 4_000_000, "small": 4_000_000, "wide": 1_500_000, "full": 500_000}


def test_a_seed_is_a_case():
    one, two, other = random_case(3), random_case(3), random_case(11)
    assert one == two and one.program != other.program
    cases = [random_case(seed) for seed in range(40)]
    assert {case.program.profile for case in cases} == set(PROFILES)
    assert len({case.timing for case in cases}) > 4 and len({case.injection for case in cases}) > 4
    assert any(case.poison for case in cases) and any(case.mmio_stall for case in cases)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("size", INSTRUCTIONS)
def test_random_programs(size):
    with CoreSimulator(campaign_bench(size)) as simulator:
        outcome = campaign(simulator, size, INSTRUCTIONS[size])
    assert outcome.compared >= INSTRUCTIONS[size] and not outcome.failures
    assert outcome.programs >= len(PROFILES) and outcome.interrupts > 20


@pytest.mark.nightly
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("size", NIGHTLY)
def test_many_random_programs(size):
    with CoreSimulator(campaign_bench(size)) as simulator:
        outcome = campaign(simulator, size, NIGHTLY[size], first_seed=1_000_000)
    assert outcome.compared >= NIGHTLY[size] and not outcome.failures


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_on_the_memory_slice():
    with CoreSimulator(campaign_bench("small", hbm=HBM)) as simulator:
        for seed in range(8):
            run, compared = run_case(simulator, random_case(seed, hbm=True),
                                     command=f"python -m tb.core.campaign small --hbm {seed}")
            assert run.instructions == compared


def test_sizes_are_as_they_are_called():
    assert [SIZES[name].width for name in ("tiny", "small", "wide", "full")] == [1, 2, 4, 4]
    assert SIZES["wide"].reorder_buffer < SIZES["small"].reorder_buffer
