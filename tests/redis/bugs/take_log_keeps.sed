# A log stores more moments than its limit has tokens.
s/^            if drop > 0 and first <= #runs then .*$//
