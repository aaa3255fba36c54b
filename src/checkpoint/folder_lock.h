// A lock of a folder of checkpoints, so that no two runs write into it at a time.
#pragma once

#include <string>
#include <thread>

namespace hidup {

// A file `lock` in the folder, which names its owner: host, process and run. The owner renews the
// file's time every second. A lock is stale if its process is known to be dead, or if it belongs to
// another host, whose processes cannot be seen, and is not renewed for some seconds.
class FolderLock {
 public:
  // Creates the folder if it is missing, and takes the lock. `run` is the timing file, for
  // messages. Throws Error(file) with the owner, where it lives.
  FolderLock(std::string folder, std::string run);
  // Removes the file, and a folder that was created here and is empty.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Call it before writes. Locks the folder again where it was deleted meanwhile. Throws
  // Error(file) where another run has taken it.
  void renew();

 private:
  void take();
  void keep_fresh(const std::stop_token& stop) const;

  std::string folder_;
  std::string path_;
  std::string text_;  // text of the file
  bool created_ = false;
  std::jthread keeper_;  // last member, because it uses all others
};

}  // namespace hidup
