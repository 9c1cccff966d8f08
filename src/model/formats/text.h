// Text of messages about files: names from outside made safe to print, shapes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace surety::model {

// The name with bytes outside printable ASCII as \xNN and cut after 96 bytes, so that a message stays one short line.
std::string Printable(std::string_view name);

// 'text', in quotes as messages name files.
std::string Quoted(std::string_view text);

// "[2, 3]".
std::string ShapeText(std::span<const int64_t> shape);

}  // namespace surety::model
