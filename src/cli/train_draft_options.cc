#include "cli/train_draft_options.h"

#include <fmt/format.h>

namespace surety::cli {

void TrainDraftOptions::Declare(Flags& flags) {
  flags.Group("Texts");
  flags.Add("-d,--data", data, "JSONL: a prompt, messages, or messages with answers and \"consent\": true; repeatable");
  flags.Add("--strict", strict, "a served text without consent is an error, not left out");
  flags.Add("--max-texts", max_texts, "only the first texts; 0: all");
  flags.Add("-c,--ctx", context, "tokens of a text at most; longer ones are cut");
  flags.Add("--answer-tokens", answer_tokens, "tokens that the model writes for a prompt at most");
  flags.Add("--temperature", temperature, "of the answers that the model writes; 0: greedy");
  flags.Add("--parallel-answers", parallel_answers, "answers written at the same time");
  flags.Add("--raw", raw, "prompts as they are, without the chat template");
  flags.Add("--learn", learn, "answers: only what an assistant says; all: prompts, too");
  model.Declare(flags);
  flags.Group("Head");
  flags.Add("--tap-layers", tap_layers, "the head reads the hidden states entering these layers; default 2, L/2, L-3");
  flags.Add("--draft-vocab", draft_vocab, "tokens that the head may say: the most frequent ones");
  flags.Add("--ffn", d_ff, "width of the head's feed-forward; 0: the model's");
  flags.Add("--dtype", numbers, "of the head's file: bf16, f16 or f32");
  flags.Group("Training");
  flags.Add("--epochs", train.epochs, "passes over the texts");
  flags.Add("--steps", train.max_steps, "steps instead; 0: as many as the passes take");
  flags.Add("--batch-tokens", train.batch_tokens, "positions of a step, about");
  flags.Add("--depths", train.unroll, "drafted tokens in a row that are learned");
  flags.Add("--depth-decay", train.depth_decay, "weight of a depth against the one before");
  flags.Add("--learning-rate", train.learning_rate, "at its highest");
  flags.Add("--warmup", train.warmup_share, "share of the steps in which the rate rises; then it falls as a cosine");
  flags.Add("--weight-decay", train.weight_decay, "AdamW's, of matrices");
  flags.Add("--clip", train.clip_norm, "longest gradient; 0: any");
  flags.Add("--top", n_top, "likeliest tokens of the model that are kept for a position");
  flags.Add("--holdout", train.holdout_share, "share of the texts that is measured and not learned");
  flags.Add("--seed", train.seed, "decides order, split and first weights");
  flags.Group("Output");
  flags.Add("-o,--output", output, "the head's folder");
  flags.Add("--work", work, "folder for unfinished work; default: work in the output folder");
  flags.Add("--work-limit", work_limit_gb, "GB that the work folder may take");
  flags.Add("--keep-work", keep_work, "do not remove the work folder at the end");
  flags.Add("--resume", resume, "go on with unfinished work");
  flags.Add("--retrain", retrain, "train anew, other flags perhaps, on the hidden states of unfinished or kept work");
  flags.Add("--eval-every", eval_every, "steps between measurements; 0: twenty in all");
  flags.Add("--checkpoint-seconds", checkpoint_seconds, "time between checkpoints");
  flags.Add("--json", json, "one JSON object");
}

Status TrainDraftOptions::Validate() const {
  const auto wrong = [](const char* flag, double value, const char* rule) {
    return InvalidArgumentError(fmt::format("{}: {} is not {}", flag, value, rule));
  };
  if (data.empty()) return InvalidArgumentError("give texts with -d FILE.jsonl");
  if (output.empty()) return InvalidArgumentError("give a folder for the head with -o");
  if (max_texts < 0) return wrong("--max-texts", max_texts, "0 (all) or more");
  if (context < 8 || context > 1 << 20) return wrong("--ctx", context, "from 8 to 1048576");
  if (answer_tokens < 1) return wrong("--answer-tokens", answer_tokens, "1 or more");
  if (!(temperature >= 0 && temperature <= 10)) return wrong("--temperature", temperature, "from 0 to 10");
  if (parallel_answers < 1 || parallel_answers > 1024) {
    return wrong("--parallel-answers", parallel_answers, "from 1 to 1024");
  }
  if (learn != "answers" && learn != "all") {
    return InvalidArgumentError(fmt::format("--learn: '{}' is neither answers nor all", learn));
  }
  if (draft_vocab < 2) return wrong("--draft-vocab", draft_vocab, "2 or more");
  if (n_top < 1 || n_top > 4096) return wrong("--top", n_top, "from 1 to 4096");
  if (d_ff < 0 || d_ff > 1 << 20) return wrong("--ffn", d_ff, "from 0 (the model's) to 1048576");
  if (train.max_steps > 10'000'000) return wrong("--steps", train.max_steps, "at most 10000000");
  if (const auto type = train::HeadNumbersFromName(numbers); !type) return type.error().WithContext("--dtype");
  if (!(work_limit_gb > 0)) return wrong("--work-limit", work_limit_gb, "above 0");
  if (eval_every < 0) return wrong("--eval-every", eval_every, "0 (twenty in all) or more");
  if (!(checkpoint_seconds >= 0)) return wrong("--checkpoint-seconds", checkpoint_seconds, "0 or more");
  if (resume && retrain) return InvalidArgumentError("--resume goes on, --retrain starts anew: one of them");
  return train.Validate();
}

boost::json::object TrainDraftOptions::TextSettings() const {
  return {{"max_texts", max_texts},
          {"ctx", context},
          {"answer_tokens", answer_tokens},
          {"temperature", temperature},
          {"raw", raw},
          {"learn", learn},
          {"tap_layers", boost::json::array(tap_layers.begin(), tap_layers.end())},
          {"draft_vocab", draft_vocab},
          {"top", n_top},
          {"holdout", train.holdout_share},
          {"seed", train.seed}};
}

boost::json::object TrainDraftOptions::TrainingSettings() const {
  return {{"ffn", d_ff},
          {"dtype", numbers},
          {"epochs", train.epochs},
          {"steps", train.max_steps},
          {"batch_tokens", train.batch_tokens},
          {"depths", train.unroll},
          {"depth_decay", train.depth_decay},
          {"learning_rate", train.learning_rate},
          {"warmup", train.warmup_share},
          {"weight_decay", train.weight_decay},
          {"clip", train.clip_norm},
          {"eval_every", eval_every}};
}

}  // namespace surety::cli
