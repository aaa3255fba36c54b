// Files of the safetensors format, right ones and all kinds of wrong ones.
#include "interchange/safetensors.h"

#include <gmock/gmock.h>

#include <random>

#include "core/check.h"
#include "files.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

using sample::file_of;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kEight = "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]";

class Safetensors : public testing::Test {
 protected:
  // Returns the error for a file of this content, after its name; "" for a right file.
  std::string refused(const std::string& content) {
    const std::string path = folder_.write("x.safetensors", content);
    try {
      const SafetensorsFile file(path);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::file);
      EXPECT_THAT(error.what(), StartsWith(path + ": "));
      return std::string(error.what()).substr(path.size() + 2);
    }
  }
  std::string refused(const std::string& header, size_t bytes) {
    return refused(file_of(header, std::string(bytes, '\0')));
  }

  const TemporaryFolder folder_;
};

TEST_F(Safetensors, WhatIsWrittenIsRead) {
  std::vector<SafeTensor> tensors = {{.name = "b", .dtype = DType::bf16, .shape = {3, 5}},
                                     {.name = "a", .dtype = DType::f32, .shape = {}},
                                     {.name = "\"quoted\"", .dtype = DType::f16, .shape = {0, 4}}};
  std::string content = safetensors_header(tensors, {{"format", "pt"}});
  EXPECT_EQ(content.size() % 8, 0);
  content += std::string(30, 'b') + std::string(4, 'a');
  const SafetensorsFile file(folder_.write("x.safetensors", content));
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file.tensors().size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(file.tensors()[i].name, tensors[i].name);
    EXPECT_EQ(file.tensors()[i].dtype, tensors[i].dtype);
    EXPECT_EQ(file.tensors()[i].shape, tensors[i].shape);
    EXPECT_EQ(file.tensors()[i].begin, tensors[i].begin);
    EXPECT_EQ(file.tensors()[i].bytes, tensors[i].bytes);
  }
  std::array<std::byte, 2> last{};
  file.bytes().read(file.tensors()[0].begin + 28, last);
  EXPECT_EQ(last[1], std::byte{'b'});
}

TEST_F(Safetensors, LengthsThatDoNotFit) {
  EXPECT_THAT(refused(""), HasSubstr("it has 0 bytes"));
  EXPECT_THAT(refused("1234567"), HasSubstr("it has 7 bytes"));
  EXPECT_THAT(refused(std::string(8, '\xff')), HasSubstr("a header of 18446744073709551615 bytes"));
  EXPECT_THAT(refused(std::string("\x09\0\0\0\0\0\0\0{}", 10)),
              HasSubstr("a header of 9 bytes, in a file of 10"));
}

TEST_F(Safetensors, HeadersThatAreNoObjects) {
  EXPECT_THAT(refused("", 0), HasSubstr("the header is no JSON"));
  EXPECT_THAT(refused("{\"a\":", 0), HasSubstr("the header is no JSON"));
  EXPECT_THAT(refused("[]", 0), HasSubstr("the header is array, expected an object"));
  EXPECT_THAT(refused("{\"a\":1}", 0), HasSubstr("a: expected an object, found number"));
  EXPECT_THAT(refused(std::string(1 << 20, '['), 0), HasSubstr("nested more than 3 deep"));
  EXPECT_THAT(refused("{\"a\":{\"shape\":[[1]]}}", 0), HasSubstr("nested more than 3 deep"));
  EXPECT_THAT(refused("{\"a\":{" + kEight + "},\"a\":{" + kEight + "}}", 8),
              HasSubstr("the header has a twice"));
  EXPECT_THAT(refused("{\"__metadata__\":{\"format\":1}}", 0), HasSubstr("expected text"));
  EXPECT_EQ(refused("{}", 0), "");
}

TEST_F(Safetensors, TensorsThatDoNotFit) {
  const auto tensor = [&](const std::string& text, size_t bytes = 8) {
    return refused("{\"a\":{" + text + "}}", bytes);
  };
  EXPECT_EQ(tensor(kEight), "");
  EXPECT_THAT(tensor(kEight + ",\"x\":1"), HasSubstr("a: unknown key x"));
  EXPECT_EQ(tensor("\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]"), "");
  EXPECT_THAT(tensor("\"dtype\":\"F128\",\"shape\":[1],\"data_offsets\":[0,8]"),
              HasSubstr("a: the format has no dtype F128"));
  EXPECT_THAT(tensor("\"shape\":[2],\"data_offsets\":[0,8]"), HasSubstr("a: has no dtype"));
  EXPECT_THAT(tensor("\"dtype\":\"F32\",\"data_offsets\":[0,8]"), HasSubstr("a: shape: expected"));
  for (const char* shape : {"[-2]", "[2.0]", "[18446744073709551615]", "[\"2\"]", "2"}) {
    EXPECT_THAT(
        tensor("\"dtype\":\"F32\",\"shape\":" + std::string(shape) + ",\"data_offsets\":[0,8]"),
        HasSubstr("a: shape: expected"));
  }
  const auto offsets = [&](const std::string& text, size_t bytes = 8) {
    return tensor("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" + text, bytes);
  };
  EXPECT_THAT(offsets("[0]"), HasSubstr("data_offsets has 1 numbers, expected 2"));
  EXPECT_THAT(offsets("[0,9]"), HasSubstr("a: its bytes are 0 to 9 of 8"));
  EXPECT_THAT(offsets("[8,0]"), HasSubstr("a: its bytes are 8 to 0 of 8"));
  EXPECT_THAT(offsets("[0,4]"), HasSubstr("[2] elements of F32 do not take 4 bytes"));
  EXPECT_THAT(offsets("[4,12]", 12), HasSubstr("a: begins at byte"));  // a gap
  EXPECT_THAT(offsets("[0,8]", 12), HasSubstr("the file at"));         // bytes of no tensor
  EXPECT_THAT(tensor("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4294967296],"
                     "\"data_offsets\":[0,8]"),
              HasSubstr("do not take 8 bytes"));
}

TEST_F(Safetensors, TensorsThatOverlap) {
  const std::string other = "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]";
  EXPECT_THAT(refused("{\"a\":{" + kEight + "},\"b\":{" + other + "}}", 12),
              HasSubstr("b: begins at byte"));
}

// Any change gives an error or a right file.
TEST_F(Safetensors, ChangedAtRandom) {
  const std::string right = file_of({{.name = "first", .shape = {2, 3}},
                                     {.name = "second", .shape = {4}},
                                     {.name = "third", .shape = {}}});
  ASSERT_EQ(refused(right), "");
  const size_t header = right.size() - 44;
  std::mt19937 random(1);
  const std::string bytes = "0123456789[]{}\",:-.eFB \\\xff\x00";
  int wrong = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string changed = right;
    for (unsigned k = 0; k <= random() % 3; ++k) {
      const size_t at = random() % header;
      switch (random() % 4) {
        case 0:
          changed[at] = bytes[random() % bytes.size()];
          break;
        case 1:
          changed.erase(at, 1 + random() % 8);
          break;
        case 2:
          changed.insert(at, 1 + random() % 3, bytes[random() % bytes.size()]);
          break;
        default:
          changed.resize(at);
      }
      changed.resize(std::max<size_t>(changed.size(), header));
    }
    wrong += refused(changed).empty() ? 0 : 1;
  }
  EXPECT_GT(wrong, 2500);
}

}  // namespace
}  // namespace hidup
