// How this process waits for messages.
#pragma once

namespace hidup {

// Whether the threads that communicate have no core of their own beside those that compute.
void wait_beside_computation(bool shared);

// Seconds that a wait sleeps at a time, and a message may therefore be late.
double nap_s();

}  // namespace hidup
