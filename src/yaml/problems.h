// Problems of YAML files, collected so that one run reports all of them.
#pragma once

#include <string>
#include <vector>

namespace hidup {

// A place in one of the sources that a Problems object knows.
struct Position {
  size_t source = 0;
  int line = 0;  // from 1; 0 in an override, where only the source is named
  int column = 0;
};

class Problems {
 public:
  // Adds a source and returns its number. Sources are reported in the order in which they are
  // added. The name may be any text.
  size_t add_source(const std::string& name);
  void add(const Position& position, const std::string& message);
  bool empty() const { return problems_.empty(); }

  // Returns "FILE:LINE:COLUMN", or the source's name alone where the line is 0.
  std::string describe(const Position& position) const;

  // Throws Error(usage) with one line per problem, in the order of the text. Of very many problems
  // it shows the first ones and counts the others.
  void throw_if_any() const;

 private:
  struct Problem {
    Position position;
    std::string message;
  };
  std::vector<std::string> sources_;
  std::vector<Problem> problems_;
};

}  // namespace hidup
