// What surety train-draft is told: flags, their checks, and the settings that decide its result.
//
// Threads: values. Errors: Validate: kInvalidArgument naming the flag.
#pragma once

#include <string>
#include <vector>

#include <boost/json.hpp>

#include "cli/flags.h"
#include "cli/model_options.h"
#include "train/head_file.h"
#include "train/trainer.h"

namespace surety::cli {

struct TrainDraftOptions {
  ModelFlags model;
  std::vector<std::string> data;
  bool strict = false;
  std::string output, work;
  bool resume = false, retrain = false, keep_work = false;
  int max_texts = 0;            // 0: all
  int context = 1024;           // tokens of a text at most
  int answer_tokens = 256;      // that the target writes at most
  double temperature = 0;       // of what it writes
  int parallel_answers = 16;
  bool raw = false;             // prompts without the chat template
  std::string learn = "answers";  // or all
  std::vector<int> tap_layers;  // empty: 2, L/2, L-3
  int draft_vocab = 8192;
  int n_top = 64;
  int d_ff = 0;                 // 0: the target's
  std::string numbers = "bf16";
  double work_limit_gb = 20;
  int eval_every = 0;           // steps; 0: twenty times
  double checkpoint_seconds = 60;
  train::TrainOptions train;
  bool json = false;

  void Declare(Flags& flags);
  Status Validate() const;
  std::string WorkFolder() const { return work.empty() ? output + "/work" : work; }
  // What decides the result, but for data and model: what is learned from, and how it is learned.
  boost::json::object TextSettings() const;
  boost::json::object TrainingSettings() const;
};

}  // namespace surety::cli
