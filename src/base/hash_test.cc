#include "base/hash.h"

#include <span>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace surety {
namespace {

std::string HexDigest(std::string_view text) {
  return HexOf(Sha256Of(std::as_bytes(std::span(text.data(), text.size()))));
}

// The examples of FIPS 180-4 and the empty message.
TEST(Sha256Test, GivesThePublishedDigests) {
  EXPECT_EQ(HexDigest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexDigest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexDigest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256Test, PiecesGiveTheDigestOfTheWhole) {
  const std::string text(1000, 'x');
  for (size_t piece : {1u, 7u, 64u, 999u}) {
    Sha256 hasher;
    for (size_t i = 0; i < text.size(); i += piece) {
      const std::string_view part = std::string_view(text).substr(i, piece);
      hasher.Update(std::as_bytes(std::span(part.data(), part.size())));
    }
    EXPECT_EQ(HexOf(hasher.Finish()), HexDigest(text));
  }
}

}  // namespace
}  // namespace surety
