#include "comm/attendance.h"

#include <atomic>
#include <utility>

#include "device/device.h"

namespace hidup {
namespace {

std::atomic<int64_t> g_moves = 0;

}  // namespace

Attendance::Attendance(std::vector<int> members) : members_(std::move(members)) {
  place_.patient = true;
  Watchdog::add(*this);
}

Attendance::~Attendance() {
  Watchdog::remove(*this);
}

Attendance::Visit::Visit(Attendance& attendance, const std::string& doing)
    : attendance_(attendance) {
  const std::lock_guard lock(attendance_.mutex_);
  attendance_.came_ = monotonic_seconds();
  CollectivePlace& place = attendance_.place_;
  place.waiting = true;
  place.name = doing;
  ++place.number;
  ++g_moves;
}

Attendance::Visit::~Visit() {
  const std::lock_guard lock(attendance_.mutex_);
  attendance_.place_.waiting = false;
  attendance_.place_.order = ++g_moves;
}

CollectivePlace Attendance::place() {
  const std::lock_guard lock(mutex_);
  CollectivePlace place = place_;
  place.seconds = monotonic_seconds() - came_;
  return place;
}

int64_t Attendance::moves() {
  return g_moves;
}

}  // namespace hidup
