"""The comparisons themselves: they pass on what is right and fail on what is perturbed."""

import numpy as np
import pytest

from compare import ErrorRatio, check_close, check_greedy, wilson_interval
from munia_process import REAL_MODELS, real_golden, tiny_goldens


def noisy(truth, scale, seed):
    return truth + scale * np.random.RandomState(seed).standard_normal(truth.shape)


@pytest.mark.parametrize("factor, passes", [(1.0, True), (1.3, True), (1.8, False), (3.0, False)])
def test_error_ratio_tells_worse_arithmetic(factor, passes):
    ratio = ErrorRatio()
    for golden in tiny_goldens():
        truth, torch = golden.array("last_logits_f64"), golden.array("last_logits_f32")
        scale = np.sqrt(np.mean((torch - truth) ** 2))
        for i, (t, reference) in enumerate(zip(truth, torch, strict=True)):
            ratio.add(noisy(t, factor * np.sqrt(np.mean((reference - t) ** 2)), i), reference, t)
    assert scale > 0
    if passes:
        assert abs(ratio.check("noise") / factor - 1) < 0.05
    else:
        with pytest.raises(AssertionError, match="error ratio"):
            ratio.check("noise")


def test_one_wrong_logit_fails():
    golden = tiny_goldens()[0]
    truth, torch = golden.array("logits_f64"), golden.array("logits_f32")
    wrong = torch.copy()
    wrong[3, 100] += 0.01
    ErrorRatio().add(torch, torch, truth)
    with pytest.raises(AssertionError, match="a logit is off"):
        ErrorRatio().add(wrong, torch, truth)


def test_greedy():
    assert check_greedy([1, 2, 3], [1, 2, 3], [1, 1, 1])
    assert check_greedy([1, 2], [1, 2], [1, 1, 1])  # both ended by an end token
    assert not check_greedy([1, 9, 9], [1, 2, 3], [1, 0.005, 1])
    for ids in ([1, 9, 3], [1, 2], [1], [1, 2, 3, 4]):
        with pytest.raises(AssertionError):
            check_greedy(ids, [1, 2, 3], [1, 1, 1])
    with pytest.raises(AssertionError):
        check_greedy([1, 2, 3], [1, 2], [1, 1, 1])


def test_close():
    assert check_close([1.0, 2.0], [1.0, 2.005], 0.01, "x") == pytest.approx(0.005)
    with pytest.raises(AssertionError):
        check_close([1.0, 2.0], [1.0, 2.02], 0.01, "x")


def test_wilson_interval():
    # Worked by hand for 8 of 10 (z = 1.96).
    assert wilson_interval(8, 10) == pytest.approx((0.4901, 0.9433), abs=1e-4)
    assert wilson_interval(10, 10)[1] == pytest.approx(1)


@pytest.mark.parametrize("name", REAL_MODELS)
def test_real_goldens_are_sound(name):
    """The reference agrees with its own float64 truth as it should."""
    for row in real_golden(name, "logits")["prompts"]:
        f32, f64 = np.array(row["f32"]), np.array(row["f64"])
        assert np.abs(f32 - f64).max() <= 1e-4 * row["max_abs_f64"]
        assert row["top"][0][0] == row["argmax"]
        assert np.sqrt(np.mean((f32 - f64) ** 2)) == pytest.approx(row["torch_rms_error"], rel=0.5)
    for case in real_golden(name, "scores")["cases"]:
        check_close(case["logprobs_f32"], case["logprobs_f64"], 0.001, name)
    for case in real_golden(name, "greedy")["cases"]:
        assert len(case["gaps"]) - len(case["ids"]) in (0, 1)
