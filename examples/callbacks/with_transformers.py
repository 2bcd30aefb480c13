"""Fine-tuning with the Trainer of transformers, ended by the distance from the weights it began with.

The model is tiny and its weights are random, so that nothing is downloaded; with from_pretrained(…) it is fine-tuning.
"""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from fedhalt.integrations.transformers import EarlyStopping

torch.manual_seed(0)
sentences = torch.randint(2, 50, (256, 12))
labels = (sentences[:, 1:6].sum(1) > sentences[:, 6:11].sum(1)).long()
rows = [{"input_ids": ids, "labels": label} for ids, label in zip(sentences, labels, strict=True)]
config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)

stopping = EarlyStopping(threshold=0.05, patience=3, average=5)
with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=TrainingArguments(
            folder, num_train_epochs=60, per_device_train_batch_size=32, learning_rate=1e-3, save_strategy="no",
            report_to="none", disable_tqdm=True, use_cpu=True,
        ),
        train_dataset=rows,
        callbacks=[stopping],  # the line
    )  # fmt: skip
    trainer.train()

print(stopping.watch.told)
print("the averaged model:", type(stopping.averaged_model()).__name__)
