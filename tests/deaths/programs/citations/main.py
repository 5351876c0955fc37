"""Graph attention on a synthetic citation graph, configured as hydra would:

    python main.py model.hidden=64 optim.lr=0.005
"""
import http.server
import sys
import threading
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import yaml
from torch import nn


class Config(dict):
    """A dictionary whose keys are attributes."""

    def __getattr__(self, key):
        try:
            return self[key]
        except KeyError:
            raise AttributeError(f"config has no key '{key}', it has {sorted(self)}") from None

    @classmethod
    def wrap(cls, d):
        return cls({k: cls.wrap(v) if isinstance(v, dict) else v for k, v in d.items()})


def load_config(argv):
    cfg = Config.wrap(yaml.safe_load((Path(__file__).parent / "conf" / "config.yaml").read_text()))
    for item in argv:
        dotted, value = item.split("=", 1)
        node = cfg
        *parents, leaf = dotted.split(".")
        for key in parents:
            node = getattr(node, key)
        getattr(node, leaf)
        node[leaf] = yaml.safe_load(value)
    return cfg


def info(msg):
    sys.stderr.write(f"\x1b[32m{__name__}\x1b[0m:\x1b[1mINFO\x1b[0m - {msg}\n")


def make_graph(g, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, g.classes, g.nodes)
    centers = rng.normal(size=(g.classes, g.features))
    x = centers[y] + rng.normal(scale=1.5, size=(g.nodes, g.features))
    if g.file:
        edges = np.loadtxt(g.file, dtype=np.int64, delimiter="\t").T
    else:
        a, b = rng.integers(0, g.nodes, (2, g.nodes * 12))
        keep = (y[a] == y[b]) | (rng.random(len(a)) < 0.2)
        edges = np.stack([a[keep], b[keep]])
    chain = np.stack([np.arange(g.nodes - 1), np.arange(1, g.nodes)])
    edges = np.concatenate([edges, chain], axis=1)
    return torch.from_numpy(x).float(), torch.from_numpy(y), torch.from_numpy(edges)


class GATLayer(nn.Module):
    def __init__(self, d_in, d_out, heads, combine):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out * heads, bias=False)
        self.att_src = nn.Parameter(torch.randn(heads, d_out) * 0.1)
        self.att_dst = nn.Parameter(torch.randn(heads, d_out) * 0.1)
        self.heads, self.d_out, self.combine = heads, d_out, combine
        self.last_attention = None

    def forward(self, x, edges):
        src, dst = edges
        h = self.lin(x).view(-1, self.heads, self.d_out)
        e = F.leaky_relu((h[src] * self.att_src).sum(-1) + (h[dst] * self.att_dst).sum(-1), 0.2)
        w = e.exp()
        norm = torch.zeros(x.shape[0], self.heads).index_add(0, dst, w)
        alpha = w / (norm[dst] + 1e-9)
        out = torch.zeros_like(h).index_add(0, dst, alpha[..., None] * h[src])
        self.last_attention = alpha
        return out.mean(1) if self.combine == "mean" else out.flatten(1)


class GAT(nn.Module):
    def __init__(self, g, m):
        super().__init__()
        dims = [g.features] + [m.hidden] * m.layers
        self.layers = nn.ModuleList(GATLayer(a, b, m.heads, m.combine) for a, b in zip(dims, dims[1:]))
        self.head = nn.Linear(m.hidden, g.classes)

    def forward(self, x, edges):
        for layer in self.layers:
            x = F.elu(layer(x, edges))
        return self.head(x)


def ego_size(node, neighbours, seen):
    """How many nodes can be reached from this one."""
    seen.add(node)
    for other in neighbours[node]:
        if other not in seen:
            ego_size(other, neighbours, seen)
    return len(seen)


def serve_metrics(port):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    info(f"metrics on http://127.0.0.1:{port}")


def main():
    cfg = load_config(sys.argv[1:])
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)
    x, y, edges = make_graph(cfg.graph, cfg.seed)
    info(f"graph with {len(x)} nodes and {edges.shape[1]} edges")
    if cfg.logging.metrics_port:
        serve_metrics(cfg.logging.metrics_port)
    model = GAT(cfg.graph, cfg.model)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.optim.lr, weight_decay=cfg.optim.weight_decay)
    start, history = 0, []
    if cfg.checkpoint.resume:
        state = torch.load(cfg.checkpoint.path)
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        start = state["epoch"] + 1
        info(f"resumed from {cfg.checkpoint.path}, epoch {start}")
    train = torch.rand(len(x), generator=torch.Generator().manual_seed(0)) < 0.5
    for epoch in range(start, cfg.optim.epochs):
        logits = model(x, edges)
        loss = F.cross_entropy(logits[train], y[train])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if not torch.isfinite(loss):
            raise FloatingPointError(f"loss became {loss.item()} in epoch {epoch}")
        if cfg.logging.keep_attention:
            history.append([layer.last_attention for layer in model.layers])
        if epoch % cfg.eval.every == 0:
            acc = (logits.argmax(1) == y)[~train].float().mean()
            info(f"Epoch: {epoch:03d}, Loss: {loss.item():.4f}, Test: {acc:.4f}")
            if cfg.eval.egos:
                neighbours = {n: [] for n in range(len(x))}
                for a, b in edges.T.tolist():
                    neighbours[a].append(b)
                info(f"ego of node 0 reaches {ego_size(0, neighbours, set())} nodes")
        if epoch % cfg.checkpoint.every == cfg.checkpoint.every - 1:
            torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, cfg.checkpoint.path)
    info(f"finished after {cfg.optim.epochs} epochs, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
