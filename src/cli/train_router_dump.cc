#include "cli/train_router_dump.h"

#include <bit>

#include <fmt/format.h>

#include "cli/file_writer.h"

namespace surety::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "the file says little-endian");

// The header of NumPy's format 1.0: padded so that the numbers begin at a multiple of 64.
std::string NpyHeader(int64_t rows, int64_t columns) {
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  while ((10 + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(text.size() & 0xFF);
  out += static_cast<char>(text.size() >> 8);
  return out + text;
}

Status WriteDump(const std::string& path, std::string_view head, std::span<const std::byte> body) {
  SURETY_ASSIGN_OR_RETURN(auto file, FileWriter::Create(path));
  SURETY_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(head))));
  SURETY_RETURN_IF_ERROR(file->Append(body));
  return file->Commit();
}

}  // namespace

Status DumpVectors(const std::string& folder, const gateway::LabelledVectors& data,
                   const gateway::CrossValidation& outer) {
  const auto rows = static_cast<int64_t>(data.labels.size());
  SURETY_RETURN_IF_ERROR(WriteDump(folder + "/vectors.npy", NpyHeader(rows, data.dimension),
                                   std::as_bytes(std::span(data.vectors))));
  std::string text = "row,label,fold,c,predicted,confidence\n";
  for (size_t i = 0; i < data.labels.size(); ++i) {
    const int fold = outer.folds[i];
    text += fmt::format("{},{},{},{},{},{}\n", i, data.labels[i], fold, outer.c[static_cast<size_t>(fold)],
                        outer.predictions[i].predicted, outer.predictions[i].confidence);
  }
  return WriteDump(folder + "/rows.csv", text, {});
}

}  // namespace surety::cli
