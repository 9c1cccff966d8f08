// A training's state on disk: a JSON object, arrays of floats, and a SHA-256 of both. Written beside and renamed.
//
// Threads: values. Errors: ReadCheckpoint: kDataLoss (not a checkpoint, or damaged), kNotFound and the file system's.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <boost/json/object.hpp>

#include "base/file.h"
#include "base/status.h"

namespace surety::train {

struct Checkpoint {
  boost::json::object state;
  std::vector<std::vector<float>> arrays;
};

Status WriteCheckpoint(const std::string& path, const boost::json::object& state,
                       std::span<const std::span<const float>> arrays);
Result<Checkpoint> ReadCheckpoint(FileSystem& files, const std::string& path);

}  // namespace surety::train
