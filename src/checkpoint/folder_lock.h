// Which process writes into a folder of checkpoints: no two runs do at a time.
#pragma once

#include <string>
#include <thread>

namespace hidup {

// A file `lock` in the folder, which says who has it: host, process and run. Its owner renews the
// file's time every second. So a lock is stale where its process is known to be dead, and where it
// belongs to another host, whose processes cannot be seen, and is not renewed for some seconds.
class FolderLock {
 public:
  // Creates the folder where there is none. `run`: the timing file, for messages. Throws
  // Error(file) naming the owner, where that lives.
  FolderLock(std::string folder, std::string run);
  // Removes the file, and the folder where it was created here and nothing is in it.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Before anything is written: locks the folder again where it was deleted meanwhile. Throws
  // Error(file) where another run has taken it.
  void renew();

 private:
  void take();
  void keep_fresh(const std::stop_token& stop) const;

  std::string folder_;
  std::string path_;
  std::string text_;  // of the file
  bool created_ = false;
  std::jthread keeper_;  // last: it uses all the others
};

}  // namespace hidup
