"""A tiny causal language model with the Hugging Face Trainer: two epochs of random tokens."""

import argparse
import os
import signal

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
parser.add_argument("--out", default="out")
parser.add_argument("--resume")
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--epochs", type=int, default=2)
arguments = parser.parse_args()


class Tokens(torch.utils.data.Dataset):
    def __init__(self, rows: int, seed: int) -> None:
        self.rows = np.random.default_rng(seed).integers(0, 64, (rows, 16))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict:
        if arguments.fault == "segfault" and index >= 0 and torch.utils.data.get_worker_info():
            os.kill(os.getpid(), signal.SIGSEGV)  # dies: segfault
        return {"tokens": self.rows[index], "length": 16}


def collate(samples: list[dict]) -> dict:
    if arguments.fault == "collate":
        samples = [{"ids": sample["tokens"]} for sample in samples]
    ids = torch.tensor(np.stack([sample["tokens"] for sample in samples]))  # dies: collate
    return {"input_ids": ids, "labels": ids}


def accuracy(prediction) -> dict:
    chosen = prediction.predictions.argmax(-1)
    labels = prediction.label_ids
    if arguments.fault == "metric":
        labels = labels[:, :-3]
    return {"accuracy": float((chosen[:, :-1] == labels[:, 1:]).mean())}  # dies: metric


class StopAtNan(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if arguments.fault == "callback" and state.global_step == 7:
            best = state.log_history[-1]["eval_bleu"]  # dies: callback
            control.should_save = best > 0.5

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and logs.get("loss") != logs.get("loss"):
            raise FloatingPointError(f"the loss is {logs['loss']}")  # dies: nan


torch.manual_seed(3)
model = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=64,
        n_positions=16,
        n_embd=16,
        n_layer=1,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
)
trainer = Trainer(
    model,
    TrainingArguments(
        arguments.out,
        num_train_epochs=arguments.epochs,
        per_device_train_batch_size=8,
        learning_rate=1e30 if arguments.fault == "nan" else 1e-3,
        max_grad_norm=0 if arguments.fault == "nan" else 1.0,
        logging_steps=1,
        logging_nan_inf_filter=False,
        eval_strategy="epoch",
        save_strategy="epoch",
        dataloader_num_workers=arguments.workers,
        report_to=[],
        use_cpu=True,
        remove_unused_columns=False,
        seed=3,
    ),
    data_collator=collate,
    train_dataset=Tokens(80, 1),
    eval_dataset=Tokens(16, 2),
    compute_metrics=accuracy,
    callbacks=[StopAtNan()],
)
trainer.train(resume_from_checkpoint=arguments.resume)  # dies: train
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
print("ended at", repr(losses[-1]))
