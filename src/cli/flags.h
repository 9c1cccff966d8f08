// Flags of one command, declared by the command and filled from the command line. The library that parses them is seen
// by flags.cc alone.
//
// Owns: nothing; the variables belong to the command and must outlive the parse. A variable's value at declaration is
// its default and is shown in the help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace surety::cli {

class Flags {
 public:
  virtual ~Flags() = default;

  // names: "-m,--model". Flags declared after Group(title) stand under that title in the help.
  virtual void Group(const std::string& title) = 0;
  virtual void Add(const std::string& names, bool& value, const std::string& help) = 0;
  virtual void Add(const std::string& names, int& value, const std::string& help) = 0;
  virtual void Add(const std::string& names, uint64_t& value, const std::string& help) = 0;
  virtual void Add(const std::string& names, double& value, const std::string& help) = 0;
  virtual void Add(const std::string& names, std::string& value, const std::string& help) = 0;
  virtual void Add(const std::string& names, std::optional<int>& value, const std::string& help) = 0;
  virtual void Add(const std::string& names, std::optional<double>& value, const std::string& help) = 0;
  virtual void Add(const std::string& names, std::optional<std::string>& value, const std::string& help) = 0;
  // May be given several times.
  virtual void Add(const std::string& names, std::vector<std::string>& value, const std::string& help) = 0;
  // Several times, or with commas.
  virtual void Add(const std::string& names, std::vector<int>& value, const std::string& help) = 0;
  // Arguments without a dash.
  virtual void Positional(const std::string& name, std::string& value, bool required, const std::string& help) = 0;
  virtual void Positional(const std::string& name, std::vector<std::string>& value, const std::string& help) = 0;
};

}  // namespace surety::cli
