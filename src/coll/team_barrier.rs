//! The barrier of any team: dissemination (Hensgen, Finkel and Manber 1988), in rounds that double the distance.

use super::call::Call;

/// Complete when all members have called.
pub async fn over(call: Call) {
    let (rank, size) = (call.rank(), call.size());
    let mut distance = 1;
    while distance < size {
        call.signal((rank + distance) % size, distance).await;
        call.receive((rank + size - distance) % size, distance).await;
        distance = distance.saturating_mul(2);
    }
}
