// How products share a GPU with what runs beside them. On CPUs nothing of it has an effect.
#pragma once

namespace hidup::kernels {

// From now on products that run beside messages are made for so many multiprocessors less than the
// GPU has, which they leave to the messages. Throws Error(usage) where it has no more than these.
void reserve_multiprocessors(int count);

// While one lives, the products that this thread gives to streams run beside messages.
class BesideMessages {
 public:
  BesideMessages() { now_ = true; }
  ~BesideMessages() { now_ = false; }
  BesideMessages(const BesideMessages&) = delete;
  BesideMessages& operator=(const BesideMessages&) = delete;

  static bool now() { return now_; }

 private:
  inline static thread_local bool now_ = false;
};

}  // namespace hidup::kernels
