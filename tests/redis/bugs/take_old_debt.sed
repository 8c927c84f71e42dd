# Does not bring the bucket's moment up to now: an idle bucket has more than its burst.
s/if less(tat_s, tat_f, now_s, now_f) then tat_s, tat_f = now_s, now_f end//
