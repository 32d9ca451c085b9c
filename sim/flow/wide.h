// Products of 64-bit numbers, before they are divided again.
#pragma once

namespace lockstep::sim::flow {

__extension__ using Wide = unsigned __int128;

}  // namespace lockstep::sim::flow
