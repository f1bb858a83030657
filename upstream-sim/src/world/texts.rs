//! Creates the texts of theses: many languages and lengths.

use crate::dice::Dice;

/// `{}` is replaced by the token's cashtag.
const SENTENCES: &[&str] = &[
    "Long {} here: emissions fall by half next quarter and nobody has priced it in.",
    "{} breaks out of a nine month range. Invalidation below the 200 day average.",
    "I sold half of my {}; the unlock in three weeks is 12 % of the supply.",
    "Fees of {} grew eight weeks in a row while the price went nowhere.",
    "Everyone waits for the dip in {}. I do not think that it comes.",
    "{} bleibt unterbewertet, solange der Rückkauf läuft.",
    "Ich warte bei {} auf einen Tagesschluss über dem Widerstand.",
    "Les frais de {} dépassent déjà ceux de ses concurrents ; le marché n’a pas suivi.",
    "Compré {} otra vez: la liquidez volvió y los vendedores están agotados. ¡Vamos!",
    "O volume de {} dobrou em uma semana, e o preço ainda não reagiu.",
    "Набираю {} небольшими частями: ликвидность растёт, шума мало.",
    "{} 的链上活跃地址连续四周上升,筹码很干净。",
    "{}は出来高を伴って上抜けした。損切りは直近安値の下。",
    "{} 온체인 지표가 좋아지고 있다. 분할 매수 중.",
    "أتوقع ارتفاع {} بعد التحديث القادم، والسيولة تتحسن.",
    "{} में धीरे-धीरे खरीदारी कर रहा हूँ, लक्ष्य लंबी अवधि का है।",
    "{} için hedefim değişmedi; İstanbul'daki konferanstan sonra daha da eminim.",
    "אני מחזיק {} עד סוף השנה.",
    "gm {} 🚀🚀🚀",
    "{} 💎🙌 wagmi 👩‍👩‍👧‍👦",
    "Risk: the team of {} still holds 41 % & can mint; size accordingly (<1 %).",
    "See https://app.example/research?q={}&page=2 for the numbers \"as they are\".",
];
const ONE_CHARACTER: &[&str] = &["🚀", "x", "涨", "?", "Ω", "é"];
const PAIRS: &[&str] = &["$SOL", "$ETH", "$BTC", "@someone", "#memecoins"];

/// A text about a token.
pub(super) fn text(dice: &mut Dice, symbol: &str) -> String {
    let fraction = dice.fraction();
    let bytes = match fraction {
        _ if fraction < 0.02 => return dice.pick(ONE_CHARACTER).to_owned(),
        _ if fraction < 0.60 => 20 + dice.below(200),
        _ if fraction < 0.92 => 100 + dice.below(800),
        _ if fraction < 0.999 => 600 + dice.below(3_000),
        _ => 20 * 1024 + dice.below(39 * 1024),
    };
    let mut text = String::with_capacity(bytes + 250);
    while text.len() < bytes {
        if !text.is_empty() {
            text.push_str(if dice.chance(0.15) { "\n\n" } else { " " });
        }
        text.push_str(&dice.pick(SENTENCES).replace("{}", &format!("${symbol}")));
        if dice.chance(0.2) {
            text.push(' ');
            text.push_str(dice.pick(PAIRS));
        }
        if dice.chance(0.3) {
            text.push_str(&format!(" {}", dice.below(10_000)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_short_long_and_never_too_long() {
        let mut dice = Dice::new(5);
        let lengths: Vec<usize> = (0..20_000).map(|_| text(&mut dice, "stETH").len()).collect();
        assert!(lengths.iter().any(|length| *length <= 4));
        assert!(lengths.iter().any(|length| *length > 20 * 1024));
        assert!(lengths.iter().all(|length| (1..60 * 1024).contains(length)));
    }
}
