"""Scores of denoised speech: SI-SDR, BSS Eval, STOI, PESQ, DNSMOS, and the word error rate."""
