# a few minutes on a laptop
out_dir = "out"
eval_interval = 20
n_layer = 2
n_head = 2
n_embd = 64
max_iters = 60
