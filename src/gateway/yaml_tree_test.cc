#include "gateway/yaml_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;

std::string YamlFault(std::string_view text) {
  const auto tree = ParseYaml(text);
  return tree ? "" : tree.error().message();
}

TEST(YamlTreeTest, KeepsTextsOrderAndPlaces) {
  const auto plain = ParseYaml("b: 1.10\na: [x, 'y z', no]\nc: ~\nd:\n");
  ASSERT_TRUE(plain) << plain.error().message();
  ASSERT_EQ(plain->entries.size(), 4U);
  EXPECT_EQ(plain->entries[0].key, "b");
  EXPECT_EQ(plain->entries[0].value.text, "1.10");
  EXPECT_EQ(plain->entries[1].line, 2);
  EXPECT_EQ(plain->entries[1].column, 1);
  EXPECT_EQ(plain->Find("a")->items[2].text, "no");
  EXPECT_TRUE(plain->Find("a")->items[1].quoted);
  EXPECT_EQ(plain->Find("a")->items[1].column, 8);
  EXPECT_EQ(plain->Find("c")->kind, YamlNode::Kind::kNull);
  EXPECT_EQ(plain->Find("d")->kind, YamlNode::Kind::kNull);
}

TEST(YamlTreeTest, RefusesWhatAPolicyHasNoUseFor) {
  const std::pair<const char*, const char*> cases[] = {
      {"a: &x 1\nb: 2", "1:"},
      {"a: 1\nb: *x", "2:"},
      {"a: {k: 1}\nb:\n  <<: {k: 2}\n", "3:3: a merge key"},
      {"a: 1\nb: 2\na: 3\n", "3:1: the key 'a' stands here twice"},
      {"a: !!str 1\n", "a tag"},
      {"a: !own 1\n", "a tag"},
      {"[a, b]: 1\n", "a key must be a text"},
      {"a: 1\n---\nb: 2\n", "several documents"},
      {"", "the file is empty"},
      {"a: [1, 2\n", ":"},
      {"a: 1\n b: 2\n", ":"},
      {"a: \xff\n", "1:4: not UTF-8"},
      {"a: x\x01y\n", "U+0001"},
      {"a:\n  b: 1\n\tc: 2\n", ":"},
      {"\xef\xbb\xbf" "a: 1\n", "U+FEFF"}};
  for (const auto& [text, fault] : cases) EXPECT_THAT(YamlFault(text), HasSubstr(fault)) << text;
  EXPECT_EQ(YamlFault("a: 'an & and a * and <<'\n"), "");
}

TEST(YamlTreeTest, IsBoundedInSizeDepthAndCount) {
  std::string deep = "a", list = "a: [";
  for (int i = 0; i < 30; ++i) deep = "{k: " + deep + "}";
  for (int i = 0; i < 200'000; ++i) list += "1,";
  EXPECT_THAT(YamlFault(deep), HasSubstr("deeper"));
  EXPECT_THAT(YamlFault(list + "]"), HasSubstr("more than"));
  EXPECT_THAT(YamlFault(std::string(2 << 20, 'a')), HasSubstr("bytes"));
  EXPECT_THAT(YamlFault(std::string(1 << 20, '[')), HasSubstr("brackets"));
  EXPECT_THAT(YamlFault(std::string(1 << 20, '{')), HasSubstr("brackets"));
  std::string blocks;
  for (int i = 0; i < 400'000; ++i) blocks += "- ";
  EXPECT_NE(YamlFault(blocks), "");
  EXPECT_EQ(YamlFault("a: " + std::string(1 << 19, 'x')), "");   // long, but no deeper than others
}

TEST(YamlTreeTest, BecomesJsonByWhatPlainScalarsMean) {
  const auto tree = ParseYaml("{a: 1, b: 1.5, c: true, d: '1', e: null, f: yes, g: [01, -2, 1e3]}");
  ASSERT_TRUE(tree);
  EXPECT_EQ(boost::json::serialize(JsonOfYaml(*tree)),
            R"({"a":1,"b":1.5E0,"c":true,"d":"1","e":null,"f":"yes","g":["01",-2,1E3]})");
}

}  // namespace
}  // namespace surety::gateway
