"""The methods once more, in plain numpy, written from the specification alone by somebody who had not
seen `fedhalt/` (FedAvgM was added later, from its publication): an oracle for settings that the vectors file does not
hold. One function, every method an `if`."""

import numpy as np

CLIP_EPS = 1e-6
PROX = {"fedprox", "feddyn", "fedspeed", "fedsmoo"}
DUAL = {"feddyn", "fedspeed", "fedsmoo"}
SAM = {"fedsam", "fedspeed", "fedgamma", "mofedsam"}
VARIATES = {"scaffold", "fedgamma", "fedwmsam"}
MOMENTUM = {"fedcm", "mofedsam", "fedwmsam"}
METHODS = [
    "fedavg",
    "fedprox",
    "feddyn",
    "scaffold",
    "fedsam",
    "fedspeed",
    "fedsmoo",
    "fedgamma",
    "fedlesam",
    "fedwmsam",
    "fedcm",
    "mofedsam",
    "fedadam",
    "fedavgm",
]
HYPER = {
    "fedprox": ["lam"],
    "feddyn": ["lam"],
    "fedsam": ["rho"],
    "fedspeed": ["lam", "rho"],
    "fedsmoo": ["lam", "rho"],
    "fedgamma": ["rho"],
    "fedlesam": ["rho"],
    "fedwmsam": ["rho", "alpha"],
    "fedcm": ["alpha"],
    "mofedsam": ["rho", "alpha"],
    "fedavgm": ["beta"],
}
KNOWN = {"K", "mu", "wd", "clip", "lam", "rho", "alpha", "beta", "dual_mean", "lesam", "wmsam_sign", "compat"}


def step_weight(K, mu):
    """S_K(mu) by its defining double sum (not the closed form)."""
    return sum(mu**i for j in range(1, K + 1) for i in range(j))


def run(problem, method, args):
    assert set(args) <= KNOWN, args
    A, B = np.array(problem["A_diag"], float), np.array(problem["b"], float)
    N, d = A.shape
    tensors, eps, dflt = problem["tensors"], problem["eps"], problem["defaults"]
    compat = bool(args.get("compat", False))
    K = list(args.get("K", [3] * N))
    mu, wd, clip = args.get("mu", 0.0), args.get("wd", 0.0), args.get("clip")
    lam, rho = args.get("lam", dflt["lam"]), args.get("rho", dflt["rho"])
    alpha = args.get("alpha", dflt["alpha"])
    lesam = "last_update" if compat else args.get("lesam", "previous_active")
    sign = -1.0 if compat else args.get("wmsam_sign", 1.0)

    def grad(i, x):
        return A[i] * (A[i] * x - B[i])

    def unit(v):
        return v / (np.sqrt(np.sum(v * v)) + eps)

    def scalar_indexed(v):
        """The authors' direction: entry j of the flat v stands for the whole tensor j; the norm is the sum of |v_j|."""
        e = np.zeros(d)
        total = sum(abs(v[j]) for j in range(len(tensors))) + eps
        for j, (lo, hi) in enumerate(tensors):
            e[lo:hi] = v[j] / total
        return e

    direction = scalar_indexed if compat else unit

    theta = np.array(problem["theta0"], float)
    h, mu_dual, c_i = np.zeros((N, d)), np.zeros((N, d)), np.zeros((N, d))
    c, m, s = np.zeros(d), np.zeros(d), np.zeros(d)
    adam_m, adam_v = np.zeros(d), np.zeros(d)
    velocity = np.zeros(d)
    w_old = [None] * N
    last_update = np.zeros(d)
    thetas, alphas = [], []

    for r, cohort in enumerate(problem["sampled"]):
        eta = problem["lr0"] * problem["lr_decay"] ** r
        X, norm_upd, dC, vs = [], [], [], []
        for i in cohort:
            T = float(K[0]) if compat else step_weight(K[i], mu)
            m_i = m + alpha / (1 - alpha) * (c - c_i[i]) if method == "fedwmsam" else None
            x, buf = theta.copy(), None
            for k in range(K[i]):
                e = np.zeros(d)
                if method in SAM:
                    e = rho * unit(grad(i, x))
                elif method == "fedsmoo":
                    e = rho * unit(grad(i, x) - mu_dual[i] - s)
                    mu_dual[i] = mu_dual[i] + e - s
                elif method == "fedlesam":
                    if lesam == "last_update":
                        e = -rho * direction(last_update)
                    elif w_old[i] is not None:
                        e = rho * direction(w_old[i] - theta)
                elif method == "fedwmsam":
                    e = sign * rho * direction(theta + k * m_i - x)
                p = grad(i, x + e)

                outside = wd * x
                if method in PROX:
                    dual = h[i] if method in DUAL else 0.0
                    if compat:
                        p = p + lam * (dual - theta)
                        outside = (wd + lam) * x
                    else:
                        p = p + lam * (dual + x - theta)
                elif method in ("scaffold", "fedgamma"):
                    p = p + c - c_i[i]
                elif method in ("fedcm", "mofedsam"):
                    p = alpha * p + (1 - alpha) * m
                elif method == "fedwmsam":
                    p = alpha * p + (1 - alpha) * m_i
                if clip is not None:
                    p = p * min(1.0, clip / (np.sqrt(np.sum(p * p)) + CLIP_EPS))
                p = p + outside
                buf = p if buf is None else mu * buf + p
                x = x - eta * buf
            delta = x - theta
            X.append(x)
            norm_upd.append(delta / (T * eta))
            dC.append(-c - delta / (T * eta))
            nd, nm = np.linalg.norm(delta), np.linalg.norm(m)
            vs.append(1 + delta @ m / (nd * nm) if nd > 0 and nm > 0 else 0.0)
            w_old[i] = theta.copy()

        # server; nothing a client of this round could have seen was changed above (h, c_i are read only by their owner)
        mean_delta = np.mean([x - theta for x in X], axis=0)
        new = theta + dflt["server_lr"] * mean_delta
        if method in DUAL:
            for i, x in zip(cohort, X, strict=True):
                h[i] += x - theta
            active = method == "fedspeed" and args.get("dual_mean") == "active"
            new = np.mean(X, axis=0) + (np.mean(h[cohort], axis=0) if active else np.sum(h, axis=0) / N)
        if method == "fedsmoo":
            s = rho * unit(np.mean(mu_dual[cohort], axis=0))
        if method in VARIATES:
            for i, dc in zip(cohort, dC, strict=True):
                c_i[i] += dc
            c = c + np.sum(dC, axis=0) / N
        if method in MOMENTUM:
            m = -np.mean(norm_upd, axis=0)
            if method == "fedwmsam" and compat:
                m = m * problem["lr_decay"]
        if method == "fedwmsam":
            alpha = 0.99 * alpha + 0.01 * min(0.9, max(0.1, np.mean(vs)))
            alphas.append(float(alpha))
        if method == "fedadam":
            b1, b2 = dflt["beta1"], dflt["beta2"]
            adam_m = b1 * adam_m + (1 - b1) * mean_delta
            adam_v = b2 * adam_v + (1 - b2) * mean_delta**2
            new = theta + dflt["server_lr"] * adam_m / (np.sqrt(adam_v) + dflt["tau"])
        if method == "fedavgm":
            velocity = args.get("beta", 0.9) * velocity + mean_delta
            new = theta + dflt["server_lr"] * velocity
        last_update = new - theta
        theta = new
        thetas.append(theta.tolist())

    state = {}
    if method in DUAL:
        state["h"] = h.tolist()
    if method == "fedsmoo":
        state["mu_dual"], state["s"] = mu_dual.tolist(), s.tolist()
    if method in VARIATES:
        state["c_i"], state["c"] = c_i.tolist(), c.tolist()
    if method in MOMENTUM:
        state["momentum"] = m.tolist()
    if method == "fedwmsam":
        state["alpha"] = alphas
    return thetas, state


def more_cases():
    """Name, method, note and arguments of every case, in the form of the vectors file."""
    het, full = [3, 1, 5], {"K": [3, 1, 5], "mu": 0.9, "wd": 0.01, "clip": 0.5}
    settings = [
        ("hetK", "mu=0, K=(3,1,5)", {"K": het}),
        ("heavyball", "mu=0.9 (buffer reset each round), K=3", {"mu": 0.9}),
        ("hetK_heavyball_wd_clip", "mu=0.9, K=(3,1,5), wd=0.01, clip=0.5", full),
        ("mu05_K5", "mu=0.5, K=5 for all", {"K": [5, 5, 5], "mu": 0.5}),
        ("compat_plain", "AUTHORS' CODE behaviour, mu=0, K=3", {"compat": True}),
        ("compat_heavyball", "AUTHORS' CODE behaviour, mu=0.9, K=3", {"mu": 0.9, "compat": True}),
        (
            "compat_hetK_heavyball_wd_clip",
            "AUTHORS' CODE behaviour, mu=0.9, K=(3,1,5), wd=0.01, clip=0.5",
            {**full, "compat": True},
        ),
    ]
    values = {"lam": 0.02, "rho": 0.2, "alpha": 0.3, "beta": 0.5}
    for meth in METHODS:
        for name, note, args in settings:
            yield f"{meth}/{name}", meth, note, args
        if meth in HYPER:
            a = {k: values[k] for k in HYPER[meth]}
            yield f"{meth}/hyper", meth, ", ".join(f"{k}={v}" for k, v in a.items()) + "; mu=0, K=3", a
    for meth in ("fedcm", "mofedsam", "fedwmsam"):  # clip=0.5 never fires for these (p is about alpha*g), 0.1 does
        for tag, extra in [("", {}), ("compat_", {"compat": True})]:
            yield (
                f"{meth}/{tag}clip01",
                meth,
                f"{tag}mu=0.9, K=(3,1,5), wd=0.01, clip=0.1",
                {**full, "clip": 0.1, **extra},
            )
    for meth, tag, extra in [
        ("fedspeed", "paper_server", {"dual_mean": "active"}),
        ("fedlesam", "last_update", {"lesam": "last_update"}),
        ("fedwmsam", "neg_sign", {"wmsam_sign": -1.0}),
    ]:
        for name, a in [
            ("heavyball", {"mu": 0.9}),
            ("hetK", {"K": het}),
            ("hetK_heavyball", {"mu": 0.9, "K": het}),
            ("hetK_heavyball_wd_clip", full),
        ]:
            yield f"{meth}/{tag}_{name}", meth, f"{tag}: {extra}, {name}", {**a, **extra}
