#include "yaml/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>
#include <utility>

#include "core/text.h"

namespace hidup {
namespace {

struct TooDeep {
  YamlProblem problem;
};

// Builds the tree from yaml-cpp's events.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::vector<YamlProblem>& problems) : problems_(problems) {}

  // Returns the document; its kind is refused where another document follows.
  YamlNode take_root() {
    if (documents_ > 1) {
      root_.kind = YamlNode::Kind::refused;
    }
    return std::move(root_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2) {
      add_problem(mark, "the document ends before this: a second document, or a stray sign");
    }
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(node(mark, "?", anchor, YamlNode::Kind::null));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    add_problem(mark, "aliases (*name) are not supported: write the value out");
    add(node(mark, "?", 0, YamlNode::Kind::refused));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode scalar = node(mark, tag, anchor, YamlNode::Kind::scalar);
    scalar.quoted = tag == "!";
    scalar.text = value;
    add(std::move(scalar));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, node(mark, tag, anchor, YamlNode::Kind::list));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, node(mark, tag, anchor, YamlNode::Kind::map));
  }
  void OnMapEnd() override { close(); }

 private:
  // yaml-cpp gives the tag "?" to plain nodes and "!" to quoted ones.
  YamlNode node(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                YamlNode::Kind kind) {
    if (anchor != 0) {
      add_problem(mark, "anchors (&name) are not supported: remove it");
    }
    if (tag != "?" && tag != "!" && !tag.empty()) {
      add_problem(mark, "tags (such as !!int) are not supported: remove it");
    }
    YamlNode made;
    made.kind = kind;
    made.line = mark.line + 1;
    made.column = mark.column + 1;
    return made;
  }

  void add(YamlNode finished) {
    if (open_.empty()) {
      if (documents_ == 1) {
        root_ = std::move(finished);
      }
      return;
    }
    YamlNode& parent = open_.back();
    // The events of a map come as key, value, key, value, ...
    const bool is_key =
        parent.kind == YamlNode::Kind::map && parent.keys.size() == parent.values.size();
    (is_key ? parent.keys : parent.values).push_back(std::move(finished));
  }

  // Opens a list or map. Throws at too many levels, since the parser calls itself for each level.
  void open(const YAML::Mark& mark, YamlNode started) {
    constexpr size_t kMostLevels = 64;
    if (open_.size() == kMostLevels) {
      throw TooDeep{{mark.line + 1, mark.column + 1,
                     fmt::format("more than {} levels of lists and maps", kMostLevels)}};
    }
    open_.push_back(std::move(started));
  }

  void close() {
    YamlNode finished = std::move(open_.back());
    open_.pop_back();
    add(std::move(finished));
  }

  void add_problem(const YAML::Mark& mark, std::string message) {
    problems_.push_back({mark.line + 1, mark.column + 1, std::move(message)});
  }

  std::vector<YamlProblem>& problems_;
  std::vector<YamlNode> open_;
  YamlNode root_;
  int documents_ = 0;
};

// Finds characters that yaml-cpp handles wrongly: it takes byte 4 for the end of the text, passes
// on bytes that are not UTF-8, and reports a tab in the indentation wrongly or not at all.
std::optional<YamlProblem> find_forbidden_character(const std::string& text) {
  int line = 1;
  int column = 1;
  bool indentation = true;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '\t' && indentation) {
      return YamlProblem{line, column, "a tab in the indentation: YAML wants blanks"};
    }
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7F) {
      return YamlProblem{line, column,
                         fmt::format("a control character (byte {:#04x}): this is not text", byte)};
    }
    const size_t length = utf8_length(std::string_view(text).substr(at, 4));
    if (length == 0) {
      return YamlProblem{line, column,
                         fmt::format("byte {:#04x}: this is not text in UTF-8", byte)};
    }
    indentation = (indentation && c == ' ') || c == '\n';
    column = c == '\n' ? 1 : column + static_cast<int>(length);
    line += c == '\n' ? 1 : 0;
    at += length;
  }
  return std::nullopt;
}

}  // namespace

YamlNode parse_yaml(const std::string& text, std::vector<YamlProblem>& problems) {
  YamlNode refused;
  refused.kind = YamlNode::Kind::refused;
  if (const auto problem = find_forbidden_character(text)) {
    problems.push_back(*problem);
    return refused;
  }
  TreeBuilder builder(problems);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    // The second call reports content after the document. Further calls might never end: before a
    // stray comma, yaml-cpp finds one empty document after the other.
    parser.HandleNextDocument(builder);
    parser.HandleNextDocument(builder);
  } catch (const TooDeep& error) {
    problems.push_back(error.problem);
    return refused;
  } catch (const YAML::Exception& error) {
    problems.push_back(
        {error.mark.line + 1, error.mark.column + 1,
         fmt::format("malformed YAML here or just before (indentation, colons, quotes, brackets): "
                     "{}",
                     shown(error.msg))});
    return refused;
  }
  return builder.take_root();
}

std::string yaml_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\n') {
      quoted += "\\n";
      continue;
    }
    quoted += c == '"' || c == '\\' ? "\\" : "";
    quoted += c;
  }
  return quoted + "\"";
}

std::string yaml_word(std::string_view text) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_.=+()/@-").find(c) != std::string_view::npos;
  };
  const bool plain = !text.empty() && std::ranges::all_of(text, is_plain) && text != "null" &&
                     text != "Null" && text != "NULL" && text != "-";
  return plain ? std::string(text) : yaml_quoted(text);
}

}  // namespace hidup
