"""How results are compared with goldens: error ratios, greedy texts, intervals. Pure functions,
tested by test_compare.py; no program is run here."""

import math

import numpy as np

MAX_ERROR_RATIO = 1.5  # munia's error against float64, as a multiple of torch float32's
MAX_RELATIVE_ERROR = 1e-4  # of max |logit|
CLOSE_GAP = 0.01  # two best logits closer than this may swap, and the texts part


class ErrorRatio:
    """Collects the errors of many prompts of one or more models.

    Rounding errors of the logits of one prompt share their causes, and one prompt with large
    activations would outweigh all others in a plain sum. So each prompt (or matrix) counts once:
    the figure is the geometric mean over prompts of rms(munia − truth) / rms(torch − truth). With
    some tens of prompts it is known to a few percent, so 1.5 tells a worse arithmetic from chance.
    The pooled ratio and the worst case are bounded more loosely, since a few prompts decide them.
    """

    def __init__(self):
        self.rms, self.max = [], []  # [(munia, torch)]

    def add(self, munia, torch, truth):
        """Arrays of equal shape; `truth` in float64. Checks the bound that holds for each number."""
        ours = np.asarray(munia, np.float64) - truth
        theirs = np.asarray(torch, np.float64) - truth
        limit = MAX_RELATIVE_ERROR * np.abs(truth).max()
        worst = np.abs(ours).max()
        assert worst <= limit, f"a logit is off by {worst:.3g}, more than 1e-4 × max |logit| = {limit:.3g}"
        self.rms.append((rms(ours), rms(theirs)))
        self.max.append((worst, np.abs(theirs).max()))

    def figures(self):
        """(geometric mean of the ratios, ratio of pooled RMS, ratio of the largest errors)"""
        # Torch may hit the truth exactly on a prompt (a floor of 1e-9 keeps the ratio finite).
        ours, theirs = np.maximum(np.array(self.rms), 1e-9).T
        geometric = float(np.exp(np.log(ours / theirs).mean()))
        pooled = float(np.sqrt((ours**2).sum() / (theirs**2).sum()))
        worst = np.maximum(np.array(self.max), 1e-9).max(axis=0)
        return geometric, pooled, float(worst[0] / worst[1])

    def check(self, what, say=print):
        geometric, pooled, worst = self.figures()
        say(f"{what}: munia's error is {geometric:.2f} × torch float32's (geometric mean of "
            f"{len(self.rms)} prompts; pooled {pooled:.2f}, largest {worst:.2f})")
        assert geometric <= MAX_ERROR_RATIO, f"{what}: error ratio {geometric:.2f}"
        assert pooled <= 2 * MAX_ERROR_RATIO, f"{what}: pooled error ratio {pooled:.2f}"
        assert worst <= 3 * MAX_ERROR_RATIO, f"{what}: ratio of the largest errors {worst:.2f}"
        return geometric


def rms(x):
    return float(np.sqrt(np.mean(np.square(x))))


def check_greedy(ids, expected_ids, gaps):
    """Equal, or apart from a step whose two best logits are closer than CLOSE_GAP. `gaps` has one
    entry a step; one more than `expected_ids` when an end token closed the text. Returns whether
    all was equal."""
    steps = len(gaps)
    for step in range(steps):
        ours = ids[step] if step < len(ids) else None  # None: ended
        theirs = expected_ids[step] if step < len(expected_ids) else None
        if ours != theirs:
            assert gaps[step] < CLOSE_GAP, (
                f"step {step}: id {ours}, the reference has {theirs}; its two best logits are "
                f"{gaps[step]:.4f} apart")
            return False
    assert len(ids) <= steps, f"{len(ids)} ids where {steps} were allowed"
    return True


def check_close(values, expected, tolerance, what):
    worst = max(abs(a - b) for a, b in zip(values, expected, strict=True))
    assert worst <= tolerance, f"{what}: {values} against {expected}, off by {worst:.3g}"
    return worst


def wilson_interval(n_right, n, z=1.96):
    """95% interval of a proportion."""
    p = n_right / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return middle - half, middle + half


def check_beams(texts, case, close, tolerance):
    """The texts of a beam search ([{"ids", "finish_reason", "score"}, …], the best first) are the
    golden's, unless a decision of the reference's own search was closer than `close`. Returns whether
    they are."""
    expected = case["texts"]
    equal = [text["ids"] for text in texts] == [text["ids"] for text in expected]
    if not equal:
        assert case["margin"] < close, (
            f"{case['options']}: {texts}, the reference has {expected}, by a margin of {case['margin']}")
        return False
    for ours, theirs in zip(texts, expected, strict=True):
        assert ours["finish_reason"] == ("length" if theirs["end_id"] is None else "stop"), case
        # A score is a sum, divided by a power of the length that may also be negative.
        bound = tolerance + 1e-4 * abs(theirs["score"])
        assert abs(ours["score"] - theirs["score"]) <= bound, (ours["score"], theirs)
    return True
