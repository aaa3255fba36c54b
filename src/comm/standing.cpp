#include "comm/standing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <tuple>

namespace hidup {

bool Standing::waits_in(const Presence& other) const {
  return std::ranges::any_of(at, [&](const Presence& here) {
    return here.place.waiting && here.place.number == other.place.number &&
           here.place.name == other.place.name && here.members == other.members;
  });
}

std::string print(const Standing& standing) {
  std::string text = fmt::format("{} {} {}\n{}\n", standing.busy ? 1 : 0, standing.idle,
                                 standing.at.size(), standing.where);
  for (const auto& [members, place] : standing.at) {
    text += fmt::format("{} {} {} {} {} {}\n{}\n", place.waiting ? 1 : 0, place.patient ? 1 : 0,
                        place.number, place.seconds, members.size(), fmt::join(members, " "),
                        place.name);
  }
  return text + standing.failure;
}

Standing parse_standing(const std::string& text) {
  Standing standing;
  std::istringstream in(text);
  size_t groups = 0;
  in >> standing.busy >> standing.idle >> groups;
  in.ignore(1, '\n');
  std::getline(in, standing.where);
  standing.at.resize(groups);
  for (auto& [members, place] : standing.at) {
    size_t ranks = 0;
    in >> place.waiting >> place.patient >> place.number >> place.seconds >> ranks;
    members.resize(ranks);
    for (int& member : members) {
      in >> member;
    }
    in.ignore(1, '\n');
    std::getline(in, place.name);
  }
  std::getline(in, standing.failure, '\0');
  return standing;
}

namespace {

// A rank that waits, and a rank that it waits for; no such rank where all came.
struct Wait {
  int rank = 0;
  const Presence* in = nullptr;
  std::optional<int> missing = {};
  bool missing_waits = false;  // it waits for another rank itself
};

// Returns the wait that holds up the ranks: for a rank that waits for nobody itself, or else one
// that does not end though all came; the longest of several.
std::optional<Wait> worst_wait(const Standings& standings) {
  std::optional<Wait> worst;
  std::tuple<bool, bool, double> most;
  const auto consider = [&](const Wait& wait) {
    const std::tuple key(wait.missing && !wait.missing_waits, !wait.missing,
                         wait.in->place.seconds);
    if (!worst || key > most) {
      worst = wait;
      most = key;
    }
  };
  const auto look_at = [&](int rank, const Presence& presence) {
    bool complete = true;
    for (const int member : presence.members) {
      const auto found = standings.find(member);
      if (found == standings.end() || !found->second.waits_in(presence)) {
        complete = false;
        consider({rank, &presence, member, found != standings.end() && found->second.waits()});
      }
    }
    if (complete) {
      consider({rank, &presence});
    }
  };
  for (const auto& [rank, standing] : standings) {
    for (const Presence& presence : standing.at) {
      if (presence.place.waiting) {
        look_at(rank, presence);
      }
    }
  }
  return worst;
}

// Tells what the rank that did not come does instead.
std::string explain_missing(const Standings& standings, int rank) {
  const auto missing = standings.find(rank);
  if (missing == standings.end()) {
    return "; it does not answer";
  }
  const Standing& standing = missing->second;
  const std::string name = standing.at.empty() ? "" : standing.at.front().place.name;
  const std::string where = standing.where.empty() ? "" : "; it is " + standing.where;
  return name.empty() ? "; it has come to none yet" + where
                      : fmt::format("; {} {}{}",
                                    standing.waits() ? "it waits in" : "the last that it ended was",
                                    name, where);
}

}  // namespace

std::string explain(const Standings& standings) {
  const std::optional<Wait> wait = worst_wait(standings);
  if (!wait) {
    return "a collective took too long, and has ended since: cluster.comm.collective_timeout";
  }
  const CollectivePlace& place = wait->in->place;
  if (wait->missing) {
    return fmt::format("rank {} did not come to {}, in which rank {} has waited for {:.1f} s{}",
                       *wait->missing, place.name, wait->rank, place.seconds,
                       explain_missing(standings, *wait->missing));
  }
  const std::string& where = standings.at(wait->rank).where;
  return fmt::format("{} does not end, though its ranks {} all came to it, rank {} {:.1f} s ago{}",
                     place.name, fmt::join(wait->in->members, ", "), wait->rank, place.seconds,
                     where.empty() ? "" : "; that rank is " + where);
}

}  // namespace hidup
